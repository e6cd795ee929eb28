import java.io.FileReader;
import java.time.Duration;
import java.util.*;
import javax.security.auth.callback.Callback;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.common.security.oauthbearer.*;
import org.apache.kafka.common.serialization.*;

/** Goes in and writes and reads a message, once for each file of settings, and prints a line each: what came of it. */
public class SecureClient {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            Properties settings = new Properties();
            try (FileReader reader = new FileReader(file)) {
                settings.load(reader);
            }
            String name = settings.remove("case").toString();
            try {
                System.out.println(name + " " + tried(settings, name));
            } catch (Exception error) {
                Throwable cause = error;
                while (cause.getCause() != null && !cause.getClass().getName().contains("kafka.common.errors")) {
                    cause = cause.getCause();
                }
                System.out.println(name + " " + cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
        }
    }

    static String tried(Properties settings, String name) throws Exception {
        settings.put("default.api.timeout.ms", "30000");
        settings.put("request.timeout.ms", "20000");
        try (Admin admin = Admin.create(settings)) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        }
        try (Producer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(name, "hello")).get();
        }
        settings.put("group.id", name);
        settings.put("auto.offset.reset", "earliest");
        try (Consumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            for (int times = 0; times < 60; times++) {
                for (ConsumerRecord<String, String> one : consumer.poll(Duration.ofMillis(500))) {
                    consumer.commitSync();
                    return one.value();
                }
            }
        }
        return "nothing";
    }

    /** A signed token, as the line of settings for JAAS has it. */
    public static class Token implements AuthenticateCallbackHandler {
        private String token;

        @Override
        public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            token = entries.get(0).getOptions().get("token").toString();
        }

        @Override
        public void handle(Callback[] callbacks) {
            for (Callback one : callbacks) {
                if (one instanceof OAuthBearerTokenCallback) {
                    ((OAuthBearerTokenCallback) one).token(new Bearer(token));
                } else if (one instanceof SaslExtensionsCallback) {
                    ((SaslExtensionsCallback) one).extensions(SaslExtensions.empty());
                }
            }
        }

        @Override
        public void close() {}
    }

    record Bearer(String value) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return System.currentTimeMillis() + 600_000;
        }

        @Override
        public String principalName() {
            return "tess";
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}
