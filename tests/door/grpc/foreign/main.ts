// Publishes three messages, takes them under leases, acks them, and prints what it saw.
import { credentials } from "@grpc/grpc-js";
import {
  CreateTopicRequest,
  PublishRequest,
  PublisherClient,
  SubscribeRequest,
  SubscriberClient,
  TopicsClient,
} from "./goqueue/v1/goqueue";

const [address, topic] = process.argv.slice(2);
const open = credentials.createInsecure();

function fail(error: unknown): never {
  console.error(error);
  process.exit(1);
}

new TopicsClient(address, open).createTopic(CreateTopicRequest.fromPartial({ name: topic }), (error) => {
  if (error) fail(error);
  const messages = ["a", "b", "c"].map((value) => ({ key: Buffer.from("k"), value: Buffer.from(value) }));
  new PublisherClient(address, open).publish(PublishRequest.fromPartial({ topic, messages }), (error, sent) => {
    if (error) fail(error);
    console.log("offsets", sent.offsets.join(" "));
    consume();
  });
});

function consume(): void {
  const stream = new SubscriberClient(address, open).subscribe();
  let left = 3;
  stream.on("error", fail);
  stream.on("data", (frame) => {
    for (const delivery of frame.deliveries?.deliveries ?? []) {
      const receipts = delivery.messages.map((message: { receipt: string }) => message.receipt);
      for (const message of delivery.messages) console.log(message.value.toString());
      stream.write(SubscribeRequest.fromPartial({ id: 1, ack: { receipts } }));
      left -= receipts.length;
    }
    if (frame.answer && left === 0) {
      console.log("acked", frame.answer.failures.length === 0);
      process.exit(0);
    }
  });
  stream.write(SubscribeRequest.fromPartial({ subscription: { group: "ts", topics: [topic], credit: 10 } }));
}
