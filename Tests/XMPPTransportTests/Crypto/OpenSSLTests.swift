import Glibc
import TestThreads
import Testing
import XMPPTransport

@Suite(.ownThread) struct OpenSSLTests {
    @Test("X4 a program that exits while it is connected leaves OpenSSL to the threads that go on")
    func exiting() async {
        await #expect(processExitsWith: .exitCode(7)) {
            // What was registered first is called last: behind the clean-up, if there is one.
            atexit {
                _ = Crypto.digest(.sha256, [1])
                _exit(7)
            }
            _ = Crypto.digest(.sha256, [1])
            exit(0)
        }
    }
}
