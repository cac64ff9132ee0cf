#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension HandlerRegistry {
    /// The signatures of all registered handlers, sorted by their ids.
    ///
    /// - Throws: ``HandlerError`` with code `unknownSignature` when the arguments of one cannot be seen; it says what to
    ///   write.
    package var signatures: [HandlerSignature] { get throws(HandlerError) { try signatures { _ in true } } }

    private func signatures(of isIncluded: (String) -> Bool) throws(HandlerError) -> [HandlerSignature] {
        var signatures: [HandlerSignature] = []
        // Only those are looked at: the others may well be ones whose arguments cannot be seen.
        for definition in distinctDefinitions where isIncluded(definition.id.string) {
            signatures.append(try definition.signature())
        }
        return signatures.sorted { $0.id < $1.id }
    }

    /// Throws unless the handlers are those of a lock file.
    ///
    /// A handler that changed without a new version then fails a test before it fails to read a user's rows.
    ///
    /// ```swift
    /// @Test func storedHandlersAreUnchanged() throws {
    ///     let registry = HandlerRegistry.discovered(and: PubSubService.handlers)
    ///     if ProcessInfo.processInfo.environment["HANDLERS_LOCK"] == "write" {
    ///         try registry.writeSignatures(to: "handlers.lock")
    ///     }
    ///     try registry.checkSignatures(
    ///         against: "handlers.lock", updating: "run 'HANDLERS_LOCK=write swift test' and commit handlers.lock")
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - path: The lock file, which ``writeSignatures(to:of:)`` makes.
    ///   - isIncluded: The ids that the file is about; all unless said otherwise. Leave out handlers of tests.
    ///   - update: How the file is brought up to date, as part of a sentence of the error.
    /// - Throws: ``HandlerError`` with code `signaturesChanged`, whose sentence shows each handler that differs line by
    ///   line and says what to do about it; `lockFileUnavailable` when the file cannot be read.
    public func checkSignatures(
        against path: String, of isIncluded: (String) -> Bool = { _ in true },
        updating update: String = "write the lock file again with writeSignatures(to:of:)"
    ) throws(HandlerError) {
        let locked: SignatureLock
        do {
            locked = SignatureLock(try String(contentsOfFile: path, encoding: .utf8))
        } catch {
            throw HandlerError(
                .lockFileUnavailable,
                "the lock file \(path) cannot be read (\(error)); if there is none yet, \(update)",
                cause: error)
        }
        let present = SignatureLock(try signatures(of: isIncluded))
        let differences = SignatureDifference.all(from: locked, to: present, update: update)
        guard !differences.isEmpty else { return }
        throw HandlerError(
            .signaturesChanged,
            "the stored handlers are not those of \(path) (- there, + here):\n\n"
                + differences.map(\.text).joined(separator: "\n\n"))
    }

    /// Writes the lock file that ``checkSignatures(against:of:updating:)`` compares with. Commit it.
    ///
    /// - Parameters:
    ///   - path: The file, replaced as a whole.
    ///   - isIncluded: The ids that the file is about; all unless said otherwise. Leave out handlers of tests.
    /// - Throws: ``HandlerError`` with code `lockFileUnavailable` when it cannot be written.
    public func writeSignatures(
        to path: String, of isIncluded: (String) -> Bool = { _ in true }
    ) throws(HandlerError) {
        let lock = SignatureLock(try signatures(of: isIncluded))
        do {
            try lock.text.write(toFile: path, atomically: true, encoding: .utf8)
        } catch {
            throw HandlerError(
                .lockFileUnavailable, "the lock file \(path) cannot be written (\(error))", cause: error)
        }
    }
}
