"""urr-publish and liburr-publish, used as a payment team uses them, against a real broker."""
import json
import os
import subprocess
import time

import confluent_kafka as ck
import pytest

from harness.process import eventually
from harness.stack import build_dir, program

EXTERNAL = r"""
#include <stdio.h>
#include <string.h>
#include <urr_publish.h>
static int written, failed;
static void done(void *arg, void *tag, const char *error, int refused)
{
    (void)arg; (void)tag; (void)refused;
    if (error) failed++; else written++;
}
int main(int argc, char **argv)
{
    struct urr_publish_options o = {.brokers = argv[1], .on_delivery = done};
    struct urr_publisher *p;
    char why[URR_PUBLISH_ERROR], value[200];
    if (argc != 3 || urr_publish_open(&o, &p, why)) { fprintf(stderr, "%s\n", why); return 2; }
    for (int i = 0; i < 1000; i++) {
        int len = snprintf(value, sizeof value, "{\"type\":\"PAYMENT_REFUNDED\",\"paymentId\":\"%s%d\",\"orderId\":\"%s\",\"reason\":\"x\"}", argv[2], i, argv[2]);
        if (urr_publish(p, "payment-events", argv[2], value, (size_t)len, NULL, why)) { fprintf(stderr, "%s\n", why); return 1; }
        urr_publish_poll(p, 0);
    }
    if (urr_publish_flush(p, 30000, why)) { fprintf(stderr, "%s\n", why); return 1; }
    urr_publish_close(p);
    printf("%d %d\n", written, failed);
    return written == 1000 && failed == 0 ? 0 : 1;
}
"""


def publish(text, *arguments, brokers="127.0.0.1:1", timeout=60):
    env = {"PATH": os.environ["PATH"], "KAFKA_BROKERS": brokers}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
        if name in os.environ:
            env[name] = os.environ[name]
    return subprocess.run([program("urr-publish"), *arguments], input=text, capture_output=True, text=True,
                          env=env, timeout=timeout)


def payment(number, **more):
    return {"type": "PAYMENT_CONFIRMED", "paymentId": f"pay-{number}", "orderId": f"order-{number}",
            "userId": "user@example.com", "reservationId": "0191f7c4-3b2a-7c11-8e1f-000000000001",
            "amount": 50000, "paymentMethod": "card", **more}


def lines(events):
    return "".join(json.dumps(each) + "\n" for each in events)


class Reader:
    """What is published from now on."""

    def __init__(self, brokers, topic):
        self.consumer = ck.Consumer({"bootstrap.servers": brokers, "group.id": "reader"})
        parts = self.consumer.list_topics(topic, 10).topics[topic].partitions
        self.consumer.assign([ck.TopicPartition(topic, p, self.end(topic, p)) for p in parts])

    def end(self, topic, partition):
        def known():
            try:
                return self.consumer.get_watermark_offsets(ck.TopicPartition(topic, partition), timeout=10)
            except ck.KafkaException:  # a topic made a moment ago
                return None
        return eventually(known, 20)[1]

    def take(self, count, timeout=20):
        records, deadline = [], time.monotonic() + timeout
        while len(records) < count and time.monotonic() < deadline:
            message = self.consumer.poll(0.2)
            if message and not message.error():
                records.append(message)
        return records


@pytest.fixture
def reader(kafka, topics):
    made = []

    def make(topic="payment-events"):
        made.append(Reader(kafka, topic))
        return made[-1]
    yield make
    for each in made:
        each.consumer.close()


def java_partition(key, partitions=3):
    """Kafka's murmur2, written from its description: the partition Java publishers choose."""
    data, mask = key.encode(), 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at:at + 4], "little") * 0x5BD1E995 & mask
        k = (k ^ k >> 24) * 0x5BD1E995 & mask
        h = (h * 0x5BD1E995 & mask) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & mask
    h = (h ^ h >> 13) * 0x5BD1E995 & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions


def test_lines_arrive_under_their_key_where_java_would_put_them(reader, kafka):
    there = reader()
    events = [payment(n) for n in range(60)]
    done = publish(lines(events), brokers=kafka)
    assert done.returncode == 0, done.stderr
    assert "60 sent, 0 refused" in done.stderr
    records = there.take(60)
    assert {r.key().decode(): json.loads(r.value()) for r in records} == {e["orderId"]: e for e in events}
    assert all(r.partition() == java_partition(r.key().decode()) for r in records)
    assert len({r.partition() for r in records}) == 3


def test_one_orders_events_keep_their_order(reader, kafka):
    there = reader()
    assert publish(lines(payment(n, orderId="same") for n in range(3000)), brokers=kafka).returncode == 0
    assert [json.loads(r.value())["paymentId"] for r in there.take(3000)] == [f"pay-{n}" for n in range(3000)]


def test_bad_lines_are_named_and_the_good_ones_sent(reader, kafka):
    there = reader()
    bad = [json.dumps(payment(1)), "{not json", "", json.dumps(payment(2, amount=-1)), json.dumps({"type": "NO_SUCH"}),
           json.dumps(payment(3, paymentType="gift")), json.dumps(payment(4, timestamp="1999-01-01T00:00:00Z")),
           json.dumps(payment(5, paymentId="x" * 200)), json.dumps(payment(6))]
    done = publish("\n".join(bad), brokers=kafka)  # the last line has no newline
    assert done.returncode == 1
    for line, reason in ((2, "bad_json"), (4, "bad_amount"), (5, "unknown_type"), (6, "unknown_payment_type"),
                         (7, "timestamp_range"), (8, "bad_id")):
        assert f"line {line}: {reason}" in done.stderr
    assert "2 sent, 6 refused" in done.stderr
    assert [r.key() for r in there.take(3, 5)].count(b"order-1") == 1


def test_a_dry_run_needs_no_broker_and_sends_nothing(reader):
    there = reader()
    done = publish(lines([payment(1), payment(2)]), "--dry-run")
    assert done.returncode == 0 and "2 valid, 0 refused" in done.stderr
    assert publish("{}\n", "--dry-run").returncode == 1
    assert there.take(1, 1) == []


@pytest.mark.parametrize("name", ["confirmed", "transfer", "membership", "refunded", "legacy", "requested"])
def test_every_example_is_valid_and_can_be_printed(name, reader, kafka):
    there = reader("payment-commands" if name == "requested" else "payment-events")
    printed = publish("", f"--example={name}", "--print")
    assert printed.returncode == 0
    assert publish(printed.stdout, "--dry-run").returncode == 0
    assert publish("", f"--example={name}", brokers=kafka).returncode == 0
    assert there.take(1)[0].value().decode() == printed.stdout.strip()


def test_an_unknown_example_or_option_is_a_usage_error():
    for arguments in (("--example=nothing",), ("--no-such-option",), ("stray",)):
        done = publish("", *arguments)
        assert done.returncode == 2 and "confirmed" in done.stderr, arguments


def test_a_broker_that_is_away_is_an_error_not_a_hang():
    began = time.monotonic()
    done = publish(lines([payment(1)]), "--timeout", "2")
    assert done.returncode == 1 and time.monotonic() - began < 10
    assert "line 1:" in done.stderr and "0 sent, 1 refused" in done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The library as `cmake --install` leaves it."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", build_dir(), "--prefix", str(prefix), "--component", "publish"],
                   check=True, capture_output=True)
    return prefix


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_a_foreign_program_publishes_through_the_installed_library(kind, installed, reader, kafka, tmp_path):
    source, binary, there = tmp_path / "pay.c", tmp_path / "pay", reader()
    source.write_text(EXTERNAL)
    libdir = next(path.parent for path in installed.rglob("liburr-publish.a"))
    flags = ["-lurr-publish", f"-Wl,-rpath,{libdir}"] if kind == "shared" else \
        ["-l:liburr-publish.a", "-lrdkafka", "-lcjson", "-lpthread"]
    if "asan" in build_dir():
        flags.append("-fsanitize=address,undefined")
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", f"-I{installed}/include", "-o", str(binary), str(source),
                    f"-L{libdir}", *flags], check=True)
    done = subprocess.run([str(binary), kafka, kind], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 0\n"  # each one reported once, none failed
    records = there.take(1000)
    assert [json.loads(r.value())["paymentId"] for r in records] == [f"{kind}{n}" for n in range(1000)]
    assert {r.partition() for r in records} == {java_partition(kind)}


def test_the_shared_library_exports_its_own_names_only(installed):
    library = next(installed.rglob("liburr-publish.so*"))
    names = subprocess.run(["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in names.splitlines() if line.split()[-2] == "T"}
    assert exported and all(name.startswith("urr_publish") for name in exported - {"_init", "_fini"})
