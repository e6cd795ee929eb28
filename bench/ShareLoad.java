import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Takes and accepts so many records of a topic, each by itself: address, group, topic, count. Prints the rate. */
public class ShareLoad {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "5000");
        long count = Long.parseLong(args[3]), got = 0, warm = count / 4, from = 0;
        long began = System.nanoTime();
        try (KafkaShareConsumer<byte[], byte[]> consumer =
                new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(args[2]));
            while (got < count) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(5));
                for (ConsumerRecord<byte[], byte[]> record : records)
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                got += records.count();
                if (from == 0 && got >= warm) {  // the machine's compiler has seen everything by now
                    from = got;
                    began = System.nanoTime();
                }
            }
            consumer.commitSync(Duration.ofSeconds(30));
            double spent = (System.nanoTime() - began) / 1e9;
            System.out.println("{\"rate\": " + (got - from) / spent + ", \"count\": " + got + "}");
        }
    }
}
