import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Lines of base64 from standard input to two partitions, stamped with now: server, topic. */
public class Pour {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("key.serializer", ByteArraySerializer.class.getName());
    settings.put("value.serializer", ByteArraySerializer.class.getName());
    settings.put("acks", "all");
    settings.put("linger.ms", "20");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
      int i = 0;
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        byte[] value = Base64.getDecoder().decode(line);
        producer.send(
            new ProducerRecord<>(args[1], i++ % 2, System.currentTimeMillis(), null, value),
            (done, error) -> {
              if (error != null) {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
              }
            });
      }
    }
  }
}
