import Handlers
import Platform

/// The file of the owners of a store: for each account a record, and a lock that tells whether the owner is alive. The kernel frees
/// the lock the moment the process dies.
///
/// ```text
///   bytes 0 ..< 64             what the file is
///   bytes 64 n ..< 64 (n + 1)  the record of account n (``SentProgress``); who holds the lock of its first byte owns the account
/// ```
/// It decides nothing else. Who may write is the epoch in ``OwnershipTable``, so a frozen owner that still holds its lock can be
/// passed over.
final class OwnerFile: Sendable {
    let path: String
    /// Whether others had access to the file until it was opened.
    let wasNarrowed: Bool
    private let file: OpenFile

    /// The distance from one record to the next, in bytes.
    static let recordSize = 64
    /// "DHowner1".
    private static let mark: Int64 = 0x4448_6f77_6e65_7231

    static func path(ofDatabase database: String) -> String { database + "-owners" }

    /// Opens the file, or creates it.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration` when it cannot be opened, or holds what no owner has written.
    init(database: String) throws(AccountError) {
        path = Self.path(ofDatabase: database)
        do {
            (file, wasNarrowed) = try PrivateFile.open(path, beside: database)
        } catch { throw AccountError(.invalidConfiguration, error.message, cause: error) }
        // Zero: the file is new, its writer died before it was done, or a loss of power has undone the beginning.
        switch Self.mark(of: file) {
        case Self.mark: break
        case 0: withUnsafeBytes(of: Self.mark) { try? file.write($0, at: 0) }
        default: throw Self.foreign(path)
        }
    }

    /// - Returns: 0 for an empty file; nil for one that is too short to be this library's.
    private static func mark(of file: OpenFile) -> Int64? {
        var mark: Int64 = 0
        let count = withUnsafeMutableBytes(of: &mark) { try? file.read(into: $0, at: 0) }
        return count == 0 || count == 8 ? mark : nil
    }

    private static func foreign(_ path: String) -> AccountError {
        let error = PrivateFile.foreign(path, "holds what this library has not written")
        return AccountError(.invalidConfiguration, error.message, cause: error)
    }

    /// The numbers that accounts can have.
    private static let accounts: ClosedRange<Int64> = 1...(1 << 40)

    private static func place(_ account: Int64) -> Int {
        Int(min(max(account, 0), accounts.upperBound)) * recordSize
    }

    /// Refuses a record that no owner has written.
    ///
    /// - Throws: ``AccountError`` `invalidConfiguration`; ``/Handlers/HandlerError`` `databaseCorrupt` for a number that no account
    ///   was given.
    func check(_ account: Int64) throws {
        guard Self.accounts.contains(account) else {
            throw HandlerError(
                .databaseCorrupt,
                "the database holds an account with the number \(account), which none was given; put a backup back"
            )
        }
        guard SentProgress.isValid(file, at: Self.place(account)) else { throw Self.foreign(path) }
    }

    /// The last record of an account's owners.
    func sent(_ account: Int64) -> SentProgress? { SentProgress(from: file, at: Self.place(account)) }

    /// Returns the last record of an account's owners.
    static func sent(_ account: Int64, database: String) -> SentProgress? {
        guard let file = PrivateFile.openToRead(path(ofDatabase: database)), mark(of: file) == mark else {
            return nil
        }
        return SentProgress(from: file, at: place(account))
    }

    /// Records what is sent to the server. The record is not synced, and a failed write is ignored: a record that is too old loses
    /// nothing.
    func record(_ sent: SentProgress, _ account: Int64) {
        sent.stored.withUnsafeBytes { try? file.write($0, at: Self.place(account)) }
    }

    // MARK: Locks

    /// Takes the lock of an account, unless another store holds it.
    func tryLock(_ account: Int64) -> Bool { (try? file.tryLock(byte: Int64(Self.place(account)))) ?? false }

    func unlock(_ account: Int64) { file.unlock(byte: Int64(Self.place(account))) }

    /// Returns whether some store holds the lock of an account. Asking does not take it.
    static func isLocked(_ account: Int64, database: String) -> Bool {
        PrivateFile.openToRead(path(ofDatabase: database))?.isLockedElsewhere(byte: Int64(place(account)))
            ?? false
    }
}
