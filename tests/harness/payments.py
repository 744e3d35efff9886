"""A test double of a payment service: answers every PAYMENT_REFUND_REQUESTED with PAYMENT_REFUNDED.

As a real one would, it pays a payment back once however often it is asked, and may tell of it twice
(`repeat`: the share of answers that are published again). publisher() makes a producer set up as SPEC 2
asks of payment services."""
import datetime
import json
import random
import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition


def publisher(brokers, **more):
    return Producer({"bootstrap.servers": brokers, "acks": "all", "enable.idempotence": True,
                     "partitioner": "murmur2_random", "message.timeout.ms": 0, "linger.ms": 5,
                     "log_level": 0, "reconnect.backoff.max.ms": 500, **more})


def now_iso():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PaymentService:
    """with PaymentService(brokers) as payments: …   `publish(key, value)`, where given, takes the place
    of a producer of its own."""

    def __init__(self, brokers, publish=None, repeat=0.0, seed=0):
        self.requests = 0     # read, repetitions too
        self.answered = {}    # paymentId → the answer
        self.position = {}    # partition of payment-commands → next offset
        self.failure = None
        self._brokers = brokers
        self._repeat = repeat
        self._random = random.Random(f"payments:{seed}")
        self._producer = None if publish else publisher(brokers)
        self._publish = publish or self._produce
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="payments", daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self._stop.set()
        self._thread.join(30)
        if self._producer:
            self._producer.flush(30)
        if self.failure:
            raise self.failure

    def _produce(self, key, value):
        self._producer.produce("payment-events", value, key)
        self._producer.poll(0)

    def _serve(self):
        try:
            consumer = Consumer({"bootstrap.servers": self._brokers, "group.id": "payment-double",
                                 "enable.auto.commit": False, "auto.offset.reset": "error", "log_level": 0,
                                 "reconnect.backoff.max.ms": 500})
            consumer.assign([TopicPartition("payment-commands", partition, OFFSET_BEGINNING)
                             for partition in self._partitions(consumer)])
            while not self._stop.is_set():
                message = consumer.poll(0.1)
                if message is not None and not message.error():
                    self._answer(json.loads(message.value()))
                    self.position[message.partition()] = message.offset() + 1
            consumer.close()
        except Exception as error:  # told by close()
            self.failure = error

    def _partitions(self, consumer):
        while not self._stop.is_set():
            try:
                return list(consumer.list_topics("payment-commands", timeout=2).topics["payment-commands"].partitions)
            except KafkaException:  # the broker is away
                continue
        return []

    def _answer(self, request):
        self.requests += 1
        if request["type"] != "PAYMENT_REFUND_REQUESTED":
            raise RuntimeError(f"an unknown command: {request}")
        payment = request["paymentId"]
        if payment in self.answered:
            return
        value = json.dumps({
            "type": "PAYMENT_REFUNDED", "paymentId": payment, "orderId": request["orderId"],
            "userId": request["userId"], "reservationId": None, "referenceId": None,
            "paymentType": "reservation", "amount": request["amount"], "reason": request["reason"],
            "sagaId": request["sagaId"], "timestamp": now_iso()}).encode()
        key = (request["orderId"] or payment).encode()
        self.answered[payment] = value
        for _ in range(2 if self._random.random() < self._repeat else 1):
            self._publish(key, value)
