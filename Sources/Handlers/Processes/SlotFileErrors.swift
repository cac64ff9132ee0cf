import Platform

/// Errors of the file of slots.
enum SlotFileErrors {
    static func cannotOpen(_ path: String, _ error: Errno) -> HandlerError {
        switch error {
        case _ where error.meansLockedDevice: .protected(path)
        case .permissionDenied, .readOnlyFileSystem, .notPermitted:
            HandlerError(
                .databaseReadOnly,
                "the file \(path), by which processes with one database know of each other, cannot be written (\(error)); check its permissions and those of its folder"
            )
        default: failed(path, error)
        }
    }

    static func failed(_ path: String, _ error: Errno) -> HandlerError {
        switch error {
        case .noSpace, .diskQuotaExceeded, .ioError:
            HandlerError(
                .storageFailed,
                "the file \(path) could not be written (\(error)); free space or check the disk")
        case .noLocks, .invalidArgument, .noDevice, .notImplemented, .notSupported:
            HandlerError(
                .databaseUnavailable,
                "the file \(path) cannot be locked or mapped (\(error)); put the database on a local file system"
            )
        default:
            HandlerError(
                .databaseUnavailable,
                "the file \(path) cannot be opened (\(error)); check that its folder exists and that it is a file"
            )
        }
    }

    static func foreign(_ path: String) -> HandlerError {
        HandlerError(
            .databaseForeign,
            "the file \(path) was not written by this library, or is damaged; move it away, while no program has the database open"
        )
    }

    static func newer(_ path: String) -> HandlerError {
        HandlerError(
            .databaseNewer,
            "the file \(path) was written by a newer version of this library; update this program")
    }

    static func damaged(_ path: String) -> HandlerError {
        HandlerError(
            .databaseUnavailable,
            "the file \(path) was damaged while programs use it; end all programs that have the database open and start again"
        )
    }

    static func full(_ path: String) -> HandlerError {
        HandlerError(
            .databaseUnavailable,
            "\(ProcessSlot.limit) stores have the database of \(path) open, which is the limit; close one of them"
        )
    }

    static func cannotWatch(_ error: Errno) -> HandlerError {
        HandlerError(
            .resourcesExhausted,
            "the system gives no file descriptor to watch other processes with (\(error)); raise the limits of this process"
        )
    }
}
