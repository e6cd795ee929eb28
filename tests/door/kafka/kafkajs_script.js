// What the test of kafkajs runs: node kafkajs_script.js ADDRESS TOPIC GROUP; one JSON object on stdout.
const crypto = require("crypto");
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [address, topic, group] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "js", brokers: [address], logLevel: logLevel.ERROR });

async function read(groupId, count, each) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 300, maxWaitTimeInMs: 200, maxBytesPerPartition: 4194304 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer
      .run({
        autoCommit: false,
        eachMessage: async (one) => {
          found.push(one);
          if (each) await each(consumer, one, found.length);
          if (found.length === count) resolve();
        },
      })
      .catch(reject);
  });
  return [consumer, found];
}

async function main() {
  const out = {};
  const admin = kafka.admin();
  await admin.connect();
  out.created = await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
  out.again = await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  out.partitions = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;

  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  const large = crypto.randomBytes(1000000);
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    await producer.send({
      topic,
      acks: -1,
      compression,
      messages: [
        { partition: 0, key: "a", value: "text", headers: { h: "1" }, timestamp: "1700000000000" },
        { partition: 0, key: null, value: "no key", timestamp: "1700000001000" },
        { partition: 0, key: "no value", value: null, timestamp: "1700000002000" },
        { partition: 0, key: "large", value: large, timestamp: "1700000003000" },
      ],
    });
  }
  const [first, found] = await read(group, 8);
  out.messages = found.map((one) => ({
    offset: one.message.offset,
    key: one.message.key && one.message.key.toString(),
    size: one.message.value && one.message.value.length,
    headers: Object.fromEntries(Object.entries(one.message.headers).map(([name, value]) => [name, value.toString()])),
  }));
  out.whole = found.filter((one) => one.message.value && one.message.value.equals(large)).length;
  await first.commitOffsets([{ topic, partition: 0, offset: "5" }]);
  await first.disconnect();
  const [second, rest] = await read(group, 3);
  out.resumed = rest.map((one) => one.message.offset);
  await second.disconnect();

  let seeked = false;
  const [third, sought] = await read(group + "-seek", 3, async (consumer, one, count) => {
    if (!seeked) {
      seeked = true;
      consumer.pause([{ topic }]);
      consumer.seek({ topic, partition: 0, offset: "6" });
      setTimeout(() => consumer.resume([{ topic }]), 100);
    }
  });
  out.sought = sought.map((one) => one.message.offset);
  await third.disconnect();

  out.byTime = (await admin.fetchTopicOffsetsByTimestamp(topic, 1700000001500)).find((one) => one.partition === 0).offset;
  out.committed = (await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions.find(
    (one) => one.partition === 0
  ).offset;
  await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 0, offset: "2" }] });
  out.moved = (await admin.fetchOffsets({ groupId: group, topics: [topic] }))[0].partitions.find(
    (one) => one.partition === 0
  ).offset;
  out.groups = (await admin.listGroups()).groups.map((one) => one.groupId).includes(group);
  out.described = (await admin.describeGroups([group])).groups[0].state;
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
  out.low = (await admin.fetchTopicOffsets(topic)).find((one) => one.partition === 0).low;
  await admin.deleteGroups([group]);
  await admin.deleteTopics({ topics: [topic] });
  out.gone = !(await admin.listTopics()).includes(topic);
  await producer.disconnect();
  await admin.disconnect();
  console.log(JSON.stringify(out));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
