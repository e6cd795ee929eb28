import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Takes and accepts so many records of a topic, each by itself: address, group, topic, count. Prints how many
 * were taken, and from when to when. */
public class ShareLoad {
    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "5000");
        long count = Long.parseLong(args[3]), got = 0, warm = count / 4, from = 0;
        long began = System.currentTimeMillis();
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
                    began = System.currentTimeMillis();
                }
            }
            consumer.commitSync(Duration.ofSeconds(30));
            System.out.println("{\"count\": " + (got - from) + ", \"began\": " + began / 1000.0
                    + ", \"ended\": " + System.currentTimeMillis() / 1000.0 + "}");
        }
    }
}
