import Glibc

/// The errors of the file of seats.
enum SeatFileErrors {
    static func cannotOpen(_ path: String, _ code: Int32) -> HandlerError {
        switch code {
        case EACCES, EROFS, EPERM:
            HandlerError(
                .databaseReadOnly,
                "the file \(path), by which processes with one database know of each other, cannot be written (\(errorText(code))); check its permissions and those of its folder"
            )
        default: failed(path, code)
        }
    }

    static func failed(_ path: String, _ code: Int32) -> HandlerError {
        switch code {
        case ENOSPC, EDQUOT, EIO:
            HandlerError(
                .storageFailed,
                "the file \(path) could not be written (\(errorText(code))); free space or check the disk")
        case ENOLCK, EINVAL, ENODEV, ENOSYS, EOPNOTSUPP:
            HandlerError(
                .databaseUnavailable,
                "the file \(path) cannot be locked or mapped (\(errorText(code))); put the database on a local file system"
            )
        default:
            HandlerError(
                .databaseUnavailable,
                "the file \(path) cannot be opened (\(errorText(code))); check that its folder exists and that it is a file"
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

    static func noThread(_ code: Int32) -> HandlerError {
        HandlerError(
            .databaseUnavailable,
            "the system gives no thread or file descriptor to watch other processes with (\(errorText(code))); raise the limits of this process"
        )
    }
}
