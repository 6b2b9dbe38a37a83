from .answer_scores import (
    AnswerScore as AnswerScore,
)
from .answer_scores import (
    measure_of as measure_of,
)
from .answer_scores import (
    num_correct as num_correct,
)
from .answer_scores import (
    score_answers as score_answers,
)
from .lock import FolderInUse as FolderInUse
from .lock import locked as locked
from .loop import (
    Batches as Batches,
)
from .loop import (
    Examples as Examples,
)
from .loop import (
    NonFinite as NonFinite,
)
from .loop import (
    Progress as Progress,
)
from .loop import (
    fit as fit,
)
from .loop import (
    is_finite as is_finite,
)
from .loop import (
    losses_of as losses_of,
)
from .loop import (
    num_steps as num_steps,
)
from .loop import (
    shuffled as shuffled,
)
from .memory import peak_memory as peak_memory
from .metrics_log import LOG_FILE as LOG_FILE
from .metrics_log import MetricsLog as MetricsLog
from .precision import FULL as FULL
from .precision import check_precision as check_precision
from .provenance import commit as commit
from .provenance import hardware as hardware
from .provenance import versions as versions
from .record import (
    RECORD_FILE as RECORD_FILE,
)
from .record import (
    DamagedRecord as DamagedRecord,
)
from .record import (
    Record as Record,
)
from .record import (
    Status as Status,
)
from .record import (
    UnreadableRecord as UnreadableRecord,
)
from .record import (
    as_json as as_json,
)
from .record import (
    find_runs as find_runs,
)
from .record import (
    set_damaged_aside as set_damaged_aside,
)
from .record import (
    sound_record as sound_record,
)
from .scoring import loss_and_correct as loss_and_correct
from .scoring import score as score
from .signals import (
    Stopped as Stopped,
)
from .signals import (
    StopRequest as StopRequest,
)
from .signals import (
    stop_on_signals as stop_on_signals,
)
from .state import capture as capture
from .state import restore as restore
from .tensorboard import TensorBoardLog as TensorBoardLog
from .violations import (
    inputs_of as inputs_of,
)
from .violations import (
    laws_of as laws_of,
)
from .violations import (
    some_examples as some_examples,
)
from .violations import (
    states_of as states_of,
)
from .violations import (
    violations_on as violations_on,
)
from .world import World as World
from .world import under_torchrun as under_torchrun
