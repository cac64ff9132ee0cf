import Testing

/// Lends a fresh folder for async handlers: the task of one lets go of the store a moment after the runner has seen its
/// end, and only then are the files looked at.
func withReleasedFolder(
    sourceLocation: SourceLocation = #_sourceLocation, _ body: (Folder) async throws -> Void
)
    async
    throws
{
    try await withFolder(sourceLocation: sourceLocation) { folder in
        try await body(folder)
        let end = ContinuousClock.now + .seconds(20)
        while !folder.openFiles.isEmpty, ContinuousClock.now < end {
            try await Task.sleep(for: .milliseconds(1))
        }
    }
}
