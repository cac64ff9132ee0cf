package import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Gives the tests of a suite folders on a disk, although `scripts/test.py` keeps those of all others in memory.
///
/// A file system in memory gives each file a number of its own. One on a disk gives that of a removed file to the next, which a store must
/// not take for the same file.
package struct RealDisk: SuiteTrait, TestTrait, TestScoping {
    @TaskLocal fileprivate static var isWanted = false
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await Self.$isWanted.withValue(true) { try await function() }
    }

    /// The folder for temporary files of the running test.
    package static var temporaryFolder: String {
        let usual = FileManager.default.temporaryDirectory.path
        return isWanted && usual.hasPrefix("/dev/shm/") ? "/var/tmp" : usual
    }
}

extension Trait where Self == RealDisk {
    package static var realDisk: Self { RealDisk() }
}
