import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Numbers to two partitions: server, topic, first, count, base ms, ms per number, pause in ms. */
public class Produce {
  public static void main(String[] args) throws Exception {
    Properties settings = new Properties();
    settings.put("bootstrap.servers", args[0]);
    settings.put("key.serializer", ByteArraySerializer.class.getName());
    settings.put("value.serializer", ByteArraySerializer.class.getName());
    long first = Long.parseLong(args[2]);
    long end = first + Long.parseLong(args[3]);
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
      for (long i = first; i < end; i++) {
        byte[] value = Long.toString(i).getBytes();
        long stamp = Long.parseLong(args[4]) + i * Long.parseLong(args[5]);
        producer.send(new ProducerRecord<>(args[1], (int) (i % 2), stamp, value, value)).get();
        Thread.sleep(Long.parseLong(args[6]));
      }
    }
  }
}
