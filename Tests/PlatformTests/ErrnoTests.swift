import TestThreads
import Testing

@testable import Platform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

@Suite(.ownThread) struct ErrnoTests {
    @Test("H14 an error of the system has its words and its number")
    func words() {
        #expect(Errno.permissionDenied.description == "Permission denied")
        #expect(Errno.connectionRefused.detail == "Connection refused, errno \(ECONNREFUSED)")
        #expect(Errno(rawValue: 99999).detail.contains("99999"))
    }
}
