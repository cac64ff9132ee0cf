import Glibc
import TestThreads
import Testing

@testable import Platform

@Suite(.ownThread) struct ErrnoTests {
    @Test("H14 an error of the system has its words and its number")
    func words() {
        #expect(Errno.permissionDenied.description == "Permission denied")
        #expect(Errno.connectionRefused.detail == "Connection refused, errno 111")
        #expect(Errno(rawValue: 99999).detail.contains("99999"))
    }
}
