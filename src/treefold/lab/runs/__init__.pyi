from .answer_scores import (
    AnswerScore as AnswerScore,
    measure_of as measure_of,
    num_correct as num_correct,
    score_answers as score_answers,
)
from .loop import (
    Batches as Batches,
    Examples as Examples,
    NonFinite as NonFinite,
    Progress as Progress,
    fit as fit,
    is_finite as is_finite,
    losses_of as losses_of,
    num_steps as num_steps,
    shuffled as shuffled,
)
from .lock import FolderInUse as FolderInUse, locked as locked
from .metrics_log import LOG_FILE as LOG_FILE, MetricsLog as MetricsLog
from .precision import FULL as FULL, check_precision as check_precision
from .provenance import commit as commit, hardware as hardware, versions as versions
from .record import (
    DamagedRecord as DamagedRecord,
    RECORD_FILE as RECORD_FILE,
    Record as Record,
    Status as Status,
    UnreadableRecord as UnreadableRecord,
    as_json as as_json,
    find_runs as find_runs,
    found_record as found_record,
)
from .scoring import loss_and_correct as loss_and_correct, score as score
from .signals import (
    StopRequest as StopRequest,
    Stopped as Stopped,
    stop_on_signals as stop_on_signals,
)
from .state import capture as capture, restore as restore
from .tensorboard import TensorBoardLog as TensorBoardLog
from .violations import (
    inputs_of as inputs_of,
    laws_of as laws_of,
    some_examples as some_examples,
    states_of as states_of,
    violations_on as violations_on,
)
from .world import World as World, under_torchrun as under_torchrun
