"""Episodes: in memory, in files, with noise, in parts and as windows."""

from multistep.data.angles import with_angles as with_angles
from multistep.data.angles import wrapped_angles as wrapped_angles
from multistep.data.columns import Columns as Columns
from multistep.data.digest import episodes_digest as episodes_digest
from multistep.data.episodes import Episode as Episode
from multistep.data.episodes import Episodes as Episodes
from multistep.data.episodes import cut as cut
from multistep.data.episodes import first_pieces as first_pieces
from multistep.data.episodes import join as join
from multistep.data.episodes import unit_of as unit_of
from multistep.data.episodes import usual_length as usual_length
from multistep.data.files import load as load
from multistep.data.files import read as read
from multistep.data.files import save as save
from multistep.data.noise import add_noise as add_noise
from multistep.data.noise_estimate import estimate_noise as estimate_noise
from multistep.data.recording import Recording as Recording
from multistep.data.recording import as_episodes as as_episodes
from multistep.data.splits import split as split
from multistep.data.windows import Past as Past
from multistep.data.windows import Window as Window
from multistep.data.windows import Windows as Windows
from multistep.data.windows import count_windows as count_windows
from multistep.data.windows import deal as deal
from multistep.data.windows import window_starts as window_starts
