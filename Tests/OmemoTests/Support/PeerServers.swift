import TestSupport
import TestThreads
import Testing

/// Everything that is tested with independent clients on Prosody and ejabberd; the suites are extensions.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(20))) enum OmemoOnServersTests {}
