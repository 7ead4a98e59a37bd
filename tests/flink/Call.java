// The public transform in a pipeline of Java: bytes go in, rows come out. Prints their columns.
// Arguments: the address of Beam's expansion service for Python, and the file of a collection.

import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.extensions.python.PythonExternalTransform;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;

public class Call {
  public static void main(String[] given) {
    PCollection<byte[]> messages =
        Pipeline.create().apply(Create.empty(ByteArrayCoder.of()));
    PCollection<Row> rows =
        messages.apply(
            PythonExternalTransform.<PCollection<byte[]>, PCollection<Row>>from(
                    "ldpbeam.transforms.FrequenciesPerEpoch", given[0])
                .withKwarg("collections", given[1]));
    for (Schema.Field field : rows.getSchema().getFields()) {
      System.out.println(
          field.getName() + " " + field.getType().getTypeName() + " " + field.getType().getNullable());
    }
  }
}
