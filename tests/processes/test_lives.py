"""Several processes on one machine: stock clients through every door, deaths of each kind, another number of them."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
from confluent_kafka.admin import AdminClient

from bench.node_process import NodeProcess
from goqueue.cli.processes import was_shared
from goqueue.wire import goqueue_pb2, goqueue_pb2_grpc
from tests.door.sqs.clients import client as sqs_client
from tests.long import LONG
from tests.processes.machine import Machine, Writer, all_gone, read_all
from tests.waiting import wait_until


def make_topic(url: str, name: str, partitions: int = 8) -> None:
    body = {"name": name, "num_partitions": partitions}
    httpx.post(f"{url}/topics", json=body, timeout=60).raise_for_status()


def publish(url: str, topic: str, values: list[str]) -> None:
    """With keys, so that they go to both processes."""
    body = {"messages": [{"key": value, "value": value} for value in values]}
    answer = httpx.post(f"{url}/topics/{topic}/messages", json=body, timeout=60).raise_for_status().json()
    assert all("offset" in one for one in answer["results"]), answer


def drain(url: str, topic: str, count: int) -> list[str]:
    """Leased and acknowledged by a group's member."""
    with httpx.Client(base_url=url, timeout=60) as rest:
        asked = {"client_id": "c", "topics": [topic], "mode": "shared", "auto_commit": False}
        member = rest.post("/groups/g/join", json=asked).raise_for_status().json()
        found: list[str] = []
        while len(found) < count:
            who = {"member_id": member["member_id"], "generation": member["generation"]}
            polled = (
                rest.get("/groups/g/poll", params={**who, "limit": 100, "timeout": "10s"}).raise_for_status().json()
            )
            assert polled["messages"], f"{len(found)} of {count} came"
            receipts = [one["receipt"] for one in polled["messages"]]
            rest.post("/messages/ack", json={"receipts": receipts}).raise_for_status()
            found += [one["value"] for one in polled["messages"]]
        return found


def test_every_door_of_two_processes(tmp_path: Path) -> None:
    with Machine(tmp_path / "data", 2) as machine:
        assert len(machine.kafka.split(",")) == 2
        assert "process 0" in machine.block and "MB of memory" in machine.block
        machine.wait_whole(2)

        first, second = machine.kafka.split(",")
        known = AdminClient({"bootstrap.servers": second}).list_topics(timeout=30).brokers
        assert sorted(f"{one.host}:{one.port}" for one in known.values()) == sorted([first, second])

        make_topic(machine.url, "t")
        sent = [f"m-{number}" for number in range(200)]
        writer = Writer(first)
        writer.send("t", sent)
        writer.flush()
        assert sorted(read_all(second, "t", 200)) == sorted(sent)
        assert sorted(drain(machine.url, "t", 200)) == sorted(sent)

        with sqs_client(machine.sqs) as sqs:
            queue = sqs.create_queue(QueueName="q")["QueueUrl"]
            for number in range(10):
                sqs.send_message(QueueUrl=queue, MessageBody=f"s-{number}")
            bodies: set[str] = set()
            while len(bodies) < 10:
                got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=10)["Messages"]
                for one in got:
                    sqs.delete_message(QueueUrl=queue, ReceiptHandle=one["ReceiptHandle"])
                bodies |= {one["Body"] for one in got}
        with grpc.insecure_channel(machine.grpc) as channel:
            stub = goqueue_pb2_grpc.TopicsStub(channel)
            names = [one.name for one in stub.ListTopics(goqueue_pb2.ListTopicsRequest(), timeout=30).topics]
        assert {"t", "q"} <= set(names)

        check_numbers(machine)
        refused = httpx.post(f"{machine.url}/topics", json={"name": "two", "replication_factor": 2}, timeout=30)
        assert refused.status_code == 400 and "one machine" in refused.text, refused.text
        assert machine.stop() == 0
        assert was_shared(tmp_path / "data")


def check_numbers(machine: Machine) -> None:
    """Whoever answers, the numbers are those of all."""
    for _ in range(4):
        with httpx.Client(base_url=machine.url, timeout=30) as rest:
            stats = rest.get("/stats").raise_for_status().json()
            assert stats["messages"] == 210
            assert sum(one["messages"] for one in stats["processes"].values()) == 210
            page = rest.get("/metrics").raise_for_status().text
        lines = [line for line in page.splitlines() if line.startswith("goqueue_broker_messages_published_total")]
        counted = sum(float(line.rpartition(" ")[2]) for line in lines if 'topic="t"' in line)
        assert counted == 200, lines
        assert 'goqueue_process_up{process="0"} 1' in page and 'goqueue_process_up{process="1"} 1' in page


def test_a_killed_process_comes_back_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    with Machine(tmp_path / "data", 2) as machine:
        machine.wait_whole(2)
        make_topic(machine.url, "t")
        writer = Writer(machine.kafka)
        writer.send("t", [f"a-{number}" for number in range(500)])
        machine.kill_process(1)
        writer.send("t", [f"b-{number}" for number in range(500)])
        machine.wait_whole(2)
        machine.kill_process(0)
        writer.send("t", [f"c-{number}" for number in range(500)])
        writer.flush()
        machine.wait_whole(2)
        assert sorted(read_all(machine.kafka, "t", 1500)) == sorted(writer.acked)
        assert len(set(writer.acked)) == 1500
        assert "was killed (SIGKILL); it is started again" in machine.stderr


def test_a_killed_supervisor_takes_its_processes_along_and_the_next_goes_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "data", 2, under=("taskset", "-c", "0"))
    with machine:
        make_topic(machine.url, "t")
        sent = [f"m-{number}" for number in range(50)]
        publish(machine.url, "t", sent)
        children = machine.children()
        machine.kill()
        machine.start()  # at once: it waits for those that are left
        assert all_gone(children)
        machine.wait_whole(2)
        assert sorted(read_all(machine.kafka, "t", 50)) == sorted(sent)
        assert "more processes than cores" in machine.stderr
        assert "the supervisor is gone; this process stops" in machine.stderr


def test_the_number_of_processes_is_changed_between_starts(tmp_path: Path) -> None:
    data, sent = tmp_path / "data", [f"m-{number}" for number in range(100)]
    with NodeProcess(data) as alone:
        make_topic(alone.url, "t")
        publish(alone.url, "t", sent)
    with Machine(data, 3) as machine:
        machine.wait_whole(3)
        assert sorted(read_all(machine.kafka, "t", 100)) == sorted(sent)
        assert sorted(drain(machine.url, "t", 100)) == sorted(sent)
    with NodeProcess(data) as alone:
        wait_until(lambda: not list(data.glob("process-*")), lambda: alone.stderr[-2000:])
        assert sorted(read_all(alone.kafka.split(",")[0], "t", 100)) == sorted(sent)
        publish(alone.url, "t", ["last"])


def ask_any(machine: Machine, ask: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
    """As a client with a short patience does that tries again: some connections are dealt out to who stands still."""
    for _ in range(50):
        with contextlib.suppress(httpx.TransportError), httpx.Client(base_url=machine.url, timeout=3) as rest:
            return ask(rest).raise_for_status()
    raise AssertionError("nobody answers")


def test_a_process_that_stands_still_is_waited_for_and_the_others_answer(tmp_path: Path) -> None:
    with Machine(tmp_path / "data", 2) as machine:
        machine.wait_whole(2)
        make_topic(machine.url, "t")
        publish(machine.url, "t", [f"a-{number}" for number in range(20)])
        stopped = machine.children()[1]
        os.kill(stopped, signal.SIGSTOP)
        try:
            seen = lambda: ask_any(machine, lambda rest: rest.get("/cluster/nodes")).json()["nodes"]  # noqa: E731
            wait_until(lambda: "gone" in [one["state"] for one in seen()])
            page = ask_any(machine, lambda rest: rest.get("/metrics")).text
            assert 'goqueue_process_up{process="1"} 0' in page
            body = {"messages": [{"value": "near"}]}
            ask_any(machine, lambda rest: rest.post("/topics/t/messages", json=body))
            if LONG:
                wait_until(lambda: "stands still and is killed" in machine.stderr)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(stopped, signal.SIGCONT)
        machine.wait_whole(2)
        publish(machine.url, "t", [f"b-{number}" for number in range(20)])
        found = read_all(machine.kafka, "t", 41, distinct=True)
        sent = {*(f"{part}-{number}" for part in "ab" for number in range(20)), "near"}
        assert set(found) == sent
        # A client that tried again may be stored twice: whoever stood still read the first request later.
        assert {value for value in found if found.count(value) > 1} <= {"near"}


def taken_above_a_free_port() -> socket.socket:
    """Other tests have ports too: the one below may be somebody's."""
    while True:
        taken = socket.create_server(("127.0.0.1", 0))
        try:
            socket.create_server(("127.0.0.1", taken.getsockname()[1] - 1)).close()
            return taken
        except OSError:
            taken.close()


def test_a_port_in_use_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with taken_above_a_free_port() as taken:
        port = taken.getsockname()[1]
        machine = Machine(data, 2, "--kafka", f"127.0.0.1:{port - 1}")
        try:
            machine.start()
            raise AssertionError("it started")
        except RuntimeError as error:
            assert f"Cannot listen on 127.0.0.1:{port}" in str(error)
            assert "Process 1 of 2 listens 1 ports above kafka.listen" in str(error)
        assert machine.stop() == 1
    assert not was_shared(data)
    assert not (data / "process-1").exists()
