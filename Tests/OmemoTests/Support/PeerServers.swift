import TestSupport
import TestThreads
import Testing

/// Everything that is tested with independent clients on Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(20))) enum OmemoOnServersTests {}

/// Kills of our side, which take so long that they have servers of their own.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(20))) enum OmemoKillsOnServersTests {}
