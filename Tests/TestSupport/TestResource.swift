/// What a test must close, however it ends.
package protocol TestResource {
    func close() async
}

/// Runs a test with something that is closed in any case.
package func closing<Resource: TestResource>(
    _ resource: Resource, after body: (Resource) async throws -> Void
) async throws {
    do {
        try await body(resource)
    } catch {
        await resource.close()
        throw error
    }
    await resource.close()
}
