import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A share consumer that does as it is told: address, group, topic, and what becomes of records. A value is acknowledged
 * as its first word says: release, reject, renew, which is kept for eight seconds first, or hold, which is not answered when
 * it comes for the first time. All others are accepted.
 * Every record is printed as "got partition offset count value", every finished commit as "done partition offset".
 */
public class ShareWorker {
    private static final Map<Long, Integer> RENEWED = new HashMap<>();

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("max.poll.records", "20");
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            Thread stop = new Thread(() -> {
                try {
                    BufferedReader told = new BufferedReader(new InputStreamReader(System.in));
                    while (told.readLine() != null) { }
                } catch (Exception ended) { }
                consumer.wakeup();
            });
            stop.setDaemon(true);
            stop.start();
            consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                for (var one : offsets.entrySet())
                    for (long offset : one.getValue())
                        print((error == null ? "done " : "late ") + one.getKey().partition() + " " + offset);
            });
            consumer.subscribe(List.of(args[2]));
            work(consumer);
        } catch (org.apache.kafka.common.errors.WakeupException stopped) {
            print("stopped");
        }
    }

    private static void work(KafkaShareConsumer<String, String> consumer) {
        while (true) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                print("got " + record.partition() + " " + record.offset() + " " + record.deliveryCount().orElse((short) 0)
                        + " " + record.value());
                String word = record.value().split(" ")[0];
                if (word.equals("hold") && record.deliveryCount().orElse((short) 0) == 1)
                    hold();
                consumer.acknowledge(record, switch (word) {
                    case "release" -> AcknowledgeType.RELEASE;
                    case "reject" -> AcknowledgeType.REJECT;
                    case "renew" -> renewed(record);
                    default -> AcknowledgeType.ACCEPT;
                });
            }
            consumer.commitSync(Duration.ofSeconds(10));
        }
    }

    /** Four times for two seconds more; the consumer is given the record again each time. */
    private static AcknowledgeType renewed(ConsumerRecord<String, String> record) {
        if (RENEWED.merge(record.offset(), 1, Integer::sum) > 4)
            return AcknowledgeType.ACCEPT;
        try {
            Thread.sleep(2000);
            return AcknowledgeType.valueOf("RENEW");
        } catch (IllegalArgumentException older) {
            print("norenew");
            return AcknowledgeType.ACCEPT;
        } catch (InterruptedException ended) {
            throw new org.apache.kafka.common.errors.InterruptException(ended);
        }
    }

    private static void hold() {
        try {
            Thread.sleep(Long.MAX_VALUE);
        } catch (InterruptedException ended) {
            throw new org.apache.kafka.common.errors.InterruptException(ended);
        }
    }

    private static synchronized void print(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
