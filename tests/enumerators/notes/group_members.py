"""Members of a group in a folder, planned by hand."""

from datetime import timedelta

from tests.support.logs import Logs, coordinator, read
from tidegate import S3Source
from tidegate.alignment.strategy import WatermarkStrategy
from tidegate.enumerators.notes.application import application_notes
from tidegate.enumerators.notes.group import GroupFolder
from tidegate.enumerators.planning.coordinator import SourceCoordinator
from tidegate.enumerators.planning.offset import INITIAL_OFFSET
from tidegate.enumerators.planning.settings import CoordinatorSettings

DRIFT = 10
LEASE_S = 60.0
IDLE_S = 5.0


def strategy(drift=DRIFT):
    aligned = WatermarkStrategy().with_watermark_alignment(max_drift=timedelta(milliseconds=drift), group="join")
    return aligned.with_idleness(timedelta(seconds=IDLE_S))


class Member:
    """A source of a group, planned by hand."""

    def __init__(
        self,
        clock,
        logs,
        *,
        bounded=False,
        expected=None,
        drift=DRIFT,
        offset=INITIAL_OFFSET,
        application="app",
        notes=None,
        late_splits="admit",
        lease_s=LEASE_S,
    ):
        self.clock, self.logs, self.bounded, self.offset, self.application = clock, logs, bounded, offset, application
        self.expected, self.drift = expected, drift
        self.late_splits, self.lease_s = late_splits, lease_s
        self.notes = notes or (lambda: application_notes(self.application).within("groups", "join"))
        self.seen = []
        self.planned = self.before = None  # an offset that Spark has not stored yet; of a batch that it has not read
        self.start()

    def start(self):
        """Begin a run, from the last offset."""
        self.group = GroupFolder(
            self.notes(),
            self.drift,
            self.expected,
            lease_s=self.lease_s,
            clocks=self.clock.clocks,
        )
        self.run = self.coordinator()
        if self.bounded:
            self.run.bound_run()

    def coordinator(self):
        return coordinator(
            self.logs,
            self.clock,
            group=self.group,
            watermarks=strategy(self.drift),
            fail_on_data_loss=False,
            late_splits=self.late_splits,
        )

    def plan(self):
        """Take a batch; return the event times that it reads."""
        self.make_plan()
        self.store()
        return self.read_batch()

    def make_plan(self):
        """Plan a batch; a member that dies now forgets it."""
        end = self.run.latest_offset(self.offset)
        self.changed = end != self.offset
        if self.changed:
            self.planned = end

    def store(self):
        """Store the offset: from now on its batch is read, even if by another run."""
        if self.planned is not None:
            self.before, self.offset, self.planned = self.offset, self.planned, None

    def read_batch(self):
        """Read the batch that was stored last, and report the rest to the group; return its event times."""
        if self.before is None:
            return []
        times = self.times_of_batch()
        self.before = None
        self.seen += times
        return times

    def times_of_batch(self):
        return [self.logs.times[split][position] for split, position in read(self.run, self.before, self.offset)]

    def die(self):
        """End as after SIGKILL: the note stays."""
        self.planned = None

    def stop(self):
        self.run.close()
        self.die()


class MemberOfObjects(Member):
    """Such a source, whose rows are in the objects of a bucket.

    about: options of the source.
    discovery_interval_s: how often it looks for objects.
    """

    def __init__(self, clock, bucket, state, *, about=None, discovery_interval_s=30.0, **options):
        self.discovery_interval_s = discovery_interval_s
        self.source = S3Source(
            path=bucket.path,
            state_location=str(state),
            file_format="json",
            event_time="column:at",
            event_time_unit="ms",
            watermarks=strategy(options.get("drift", DRIFT)),
            **(about or {}),
            **bucket.connection,
        )
        super().__init__(clock, None, **options)

    def coordinator(self):
        settings = CoordinatorSettings(
            self.source.watermarks,
            event_times=self.source.event_time_policy,
            discovery_interval_s=self.discovery_interval_s,
        )
        return SourceCoordinator("s3", self.open, settings, 2, group=self.group, clocks=self.clock.clocks)

    def open(self, state):
        opened = self.source.enumerator(state)
        self.found = opened._discovery
        return opened

    def times_of_batch(self):
        reader = self.source.reader(None)
        tasks = self.run.tasks(self.before, self.offset)
        return [at_ms for task in tasks for batch in reader.read(task) for at_ms in batch["at"].to_pylist()]


def members(clock, *times, **options):
    return [Member(clock, Logs(a=list(times_of_member)), **options) for times_of_member in times]


def rounds(clock, some, count):
    """Let all members plan in turns; return the event times of each batch, by member."""
    ranges = {i: [] for i in range(len(some))}
    for _ in range(count):
        for i, member in enumerate(some):
            ranges[i] += member.plan()
        clock.sleep(0.2)
    return ranges
