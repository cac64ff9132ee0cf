import Handlers
import XMPPAccount

// The transfer itself, outside of steps.
extension Uploads {
    /// The interval at which a transfer checks whether it was canceled.
    static let lookInterval = Duration.seconds(1)

    /// An upload, as long as that handler goes on with it.
    func current(_ id: UploadID, _ job: AnyHandlerID) throws -> UploadTable.Row? {
        try account.store.read { try current(id, job, in: $0) }
    }

    func current(_ id: UploadID, _ job: AnyHandlerID, in source: borrowing some Readable) throws
        -> UploadTable
        .Row?
    {
        try table.row(id, in: source).flatMap { $0.job == job ? $0 : nil }
    }

    /// Returns the age of a slot; nil if unknown because the wall clock was set back.
    func age(of row: UploadTable.Row) throws -> Duration? {
        let now = account.store.time.wall()
        return now >= row.slotAt ? now - row.slotAt : nil
    }

    /// Puts the file.
    ///
    /// - Returns: What came of it.
    /// - Throws: `CancellationError` when this process is about to leave; what the store throws.
    func transfer(
        _ row: UploadTable.Row, to slot: UploadSlot, for job: AnyHandlerID
    ) async throws -> Result<UploadedFile, UploadError> {
        let module: UploadModule = try account.module()
        let put = FilePut(
            path: row.file.path, type: row.file.type, identity: row.identity, isEncrypted: row.isEncrypted,
            slot: slot, trust: module.trust ?? account.configuration.trust, limits: module.limits,
            reach: module.reach)
        let control = HTTPControl { [account] sent in
            account.report(UploadEvent(upload: row.id, change: .progress(sent: sent, size: row.size)))
        }
        let watch = Task { await stop(control, whenGone: row.id, job) }
        defer { watch.cancel() }
        do {
            return .success(try await onThread(control) { try put.run(control) })
        } catch let error as UploadError {
            try Task.checkCancellation()
            return .failure(error)
        }
    }

    /// Another process may cancel it.
    private func stop(_ control: HTTPControl, whenGone id: UploadID, _ job: AnyHandlerID) async {
        while (try? await account.store.system.sleep(Self.lookInterval)) != nil {
            // A store that cannot be read says nothing.
            if case .success(.none) = Result(catching: { try current(id, job) }) { return control.cancel() }
        }
    }

    /// Records the result of the transfer, in the step that ends its handler.
    ///
    /// - Parameter isRepeated: Whether another process started it before.
    func transferred(
        _ row: UploadTable.Row, _ outcome: Result<UploadedFile, UploadError>, isRepeated: Bool,
        in step: borrowing Step
    ) throws {
        switch outcome {
        case .success(let file): try finish(row, file, in: step)
        case .failure(let error):
            // The process that died may have put the file, and a slot is used once.
            if isRepeated, let status = error.status, (400...499).contains(status), status != 413 {
                return try renew(row, "it was used before (\(status))", in: step)
            }
            try again(row, error.status == 413 ? .tooLarge(row.size, maximum: nil) : error, in: step)
        }
    }
}
