import Handlers

/// A named place in an upload at which a test makes the process kill itself; chosen as the runtime's own failpoints are.
enum UploadFailpoint: String, CaseIterable {
    /// A slot was stored and its PUT is scheduled; nothing is committed.
    case slot = "upload-slot"
    /// The file is open; no byte has left.
    case putting = "upload-putting"
    /// The server has the file; nothing says so in the store.
    case put = "upload-put"
    /// The message and the end of the program's handler are written; nothing is committed.
    case ended = "upload-ended"

    func hit() throws { try Failpoint.hit(named: rawValue) }
}
