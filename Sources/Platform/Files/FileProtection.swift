#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The class in which iOS encrypts the files of a store: until the user has unlocked the device once after it started.
///
/// An app that gives its files a stricter class by default could not open them while the screen is locked, when a push wakes its extension.
package enum FileProtection {
    /// What SQLite opens a database with, so that its log and its shared memory have the class, too:
    /// `SQLITE_OPEN_FILEPROTECTION_COMPLETEUNTILFIRSTUSERAUTHENTICATION` of Apple's header.
    package static var databaseFlag: Int32 {
        #if canImport(Darwin)
            0x0030_0000
        #else
            0
        #endif
    }

    /// Gives the class to a file. A file system that has none refuses it, which does not matter.
    static func protect(_ descriptor: Int32) {
        #if canImport(Darwin)
            // F_SETPROTECTIONCLASS with the class C, which headers of macOS do not name.
            _ = fcntl(descriptor, 64, 3)
        #endif
    }
}

extension Errno {
    /// Whether a file cannot be opened or read because the device is locked, or was not unlocked since it started.
    package var meansLockedDevice: Bool {
        #if canImport(Darwin)
            self == .notPermitted
        #else
            false
        #endif
    }
}
