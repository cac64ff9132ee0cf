import FoundationEssentials
import Glibc
import Synchronization
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import Upload

/// PUT and GET against a web server that misbehaves.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct TransferTests {
    /// The error of a PUT; nil when it succeeds.
    private func error(_ put: FilePut, _ control: HTTPControl = HTTPControl()) async -> UploadError? {
        do {
            _ = try await onThread(control) { try put.run(control) }
            return nil
        } catch { return error as? UploadError }
    }

    @Test(
        "X27 a file is put whole with the slot's headers, its type and its size, and nothing else is reported of it"
    )
    func whole() async throws {
        try await closing(WebServer()) { server in
            let bytes = pattern(3_000_001)
            let path = try server.file(bytes)
            let sent = Mutex<[Int64]>([])
            let control = HTTPControl { count in sent.withLock { $0.append(count) } }
            let put = try server.put(
                path, at: "take/whole?a=b",
                headers: [
                    .init(name: "Authorization", value: "Bearer x"), .init(name: "Cookie", value: "a=1"),
                    .init(name: "Cookie", value: "b=2"),
                ])
            #expect(await error(put, control) == nil)
            let request = try #require(try server.requests.last)
            #expect(request.line == "PUT /take/whole?a=b HTTP/1.1")
            #expect(request.digest == digest(bytes))
            #expect(request.header("Content-Length") == ["3000001"])
            #expect(request.header("Content-Type") == ["text/plain"])
            #expect(request.header("Authorization") == ["Bearer x"])
            #expect(request.header("Cookie") == ["a=1", "b=2"])
            let names = Set(request.headers.map { $0[0].lowercased() })
            #expect(
                names.subtracting([
                    "host", "accept", "authorization", "cookie", "content-type", "content-length", "expect",
                ]) == [])
            let progress = sent.withLock { $0 }
            #expect(
                !progress.isEmpty && progress == progress.sorted() && progress.allSatisfy { $0 <= 3_000_001 })
        }
    }

    @Test("X27 an encrypted file is put with its tag, and nobody else's bytes: each PUT has a key of its own")
    func encrypted() async throws {
        try await closing(WebServer()) { server in
            for count in [1, 15, 65_536, 1_000_000] {
                let bytes = pattern(count)
                let path = try server.file(bytes, as: "plain-\(count)")
                var files: [UploadedFile] = []
                for attempt in 1...2 {
                    let put = try server.put(path, at: "take/\(count)-\(attempt)", encrypted: true)
                    files.append(try await onThread(HTTPControl()) { try put.run(HTTPControl()) })
                    #expect(try server.requests.last?.size == Int64(count + 16))
                    let got = server.folder.path + "/got-\(count)-\(attempt)"
                    let get = FileGet(
                        request: HTTPRequest(
                            address: files[attempt - 1].address, trust: put.trust, limits: put.limits,
                            reach: .local),
                        secret: files[attempt - 1].secret, path: got, maximumSize: Int64(count))
                    #expect(try await onThread(HTTPControl()) { try get.run(HTTPControl()) } == Int64(count))
                    #expect(try [UInt8](Data(contentsOf: URL(filePath: got))) == bytes)
                }
                let digests = try server.requests.filter { $0.size == Int64(count + 16) }.map(\.digest)
                #expect(files[0].link != files[1].link && Set(digests).count == 2)
            }
        }
    }

    @Test(
        "X27 a refusal is reported with its status, and a redirection is not followed",
        arguments: [403, 409, 413, 500, 307])
    func refused(_ status: Int) async throws {
        try await closing(WebServer()) { server in
            let put = try server.put(
                try server.file(pattern(100_000)), at: status == 307 ? "redirect" : "\(status)")
            let error = await error(put)
            #expect(error?.code == .httpStatus && error?.status == status)
            #expect(try server.requests.count == 1)
        }
    }

    @Test(
        "X27 a line that breaks, a success before the end, an answer without end and headers without end are errors of the connection",
        arguments: ["half", "early", "flood", "headers"])
    func broken(_ what: String) async throws {
        try await closing(WebServer()) { server in
            // More than what the system takes for a server that does not read.
            let bytes = [UInt8](repeating: 7, count: 40 << 20)
            let put = try server.put(try server.file(bytes), at: what)
            #expect(await error(put)?.code == .connection)
        }
    }

    @Test("X27 a server that stands still is left after the time that was given")
    func stalled() async throws {
        try await closing(WebServer()) { server in
            let put = try server.put(
                try server.file(pattern(10)), at: "stall",
                limits: .init(connecting: .seconds(20), stalled: .seconds(1), total: .seconds(40)))
            #expect(await error(put)?.code == .connection)
            let bounded = try server.put(
                try server.file(pattern(10)), at: "stall",
                limits: .init(connecting: .seconds(20), stalled: .seconds(60), total: .seconds(1)))
            #expect(await error(bounded)?.code == .connection)
        }
    }

    @Test("X27 a transfer is canceled while the server stands still")
    func canceled() async throws {
        try await closing(WebServer()) { server in
            let put = try server.put(try server.file(pattern(10)), at: "stall")
            let control = HTTPControl()
            let task = Task { await error(put, control) }
            try await eventually("the PUT") { try server.requests.count == 1 }
            task.cancel()
            #expect(await task.value?.code == .cancelled)
        }
    }

    @Test(
        "X27 a web server with a certificate that is not good gets nothing",
        arguments: TestCertificates.Flaw.allCases.filter { $0 != .none })
    func certificates(_ flaw: TestCertificates.Flaw) async throws {
        try await closing(WebServer(flaw: flaw)) { server in
            let put = try server.put(try server.file(pattern(10)), at: "take/f")
            #expect(await error(put)?.code == .tls)
            #expect(try server.requests.isEmpty)
        }
    }

    @Test("X27 a file that was changed, cut, replaced or removed is not sent")
    func changed() async throws {
        try await closing(WebServer()) { server in
            let path = try server.file(pattern(1000))
            let put = try server.put(path, at: "take/f")
            try Data(pattern(999)).write(to: URL(filePath: path))
            #expect(await error(put)?.code == .fileChanged)
            try FileManager.default.removeItem(atPath: path)
            #expect(await error(put)?.code == .fileMissing)
            #expect(try server.requests.isEmpty)
            // One that becomes another in the middle is not told as uploaded.
            let again = try server.put(try server.file(pattern(4_000_000)), at: "take/g")
            let control = HTTPControl { _ in
                let descriptor = open(path, O_WRONLY | O_CLOEXEC)
                _ = pwrite(descriptor, "x", 1, 0)
                Glibc.close(descriptor)
            }
            #expect(await error(again, control)?.code == .fileChanged)
        }
    }

    @Test("X27 what is no regular file is refused and not waited for")
    func irregular() throws {
        let folder = try TemporaryFolder()
        #expect(mkfifo(folder.path + "/pipe", 0o600) == 0)
        for path in [folder.path, folder.path + "/pipe", "/dev/zero"] {
            #expect(throws: UploadError.self, "\(path)") { try LocalFile(path).identity() }
        }
        do throws(UploadError) {
            _ = try LocalFile(folder.path + "/none")
            Issue.record("there is no such file")
        } catch { #expect(error.code == .fileMissing) }
    }

    // MARK: Fetching

    private func fetch(
        _ server: WebServer, _ place: String, _ secret: AesgcmLink? = nil, to name: String = "got",
        maximum: Int64 = 1000
    ) async -> ErrorCode<UploadError>? {
        let request = HTTPRequest(
            address: ForeignText(server.address(place)),
            trust: .file(path: server.certificates.authorityFile), limits: .init(), reach: .local)
        let get = FileGet(
            request: request, secret: secret, path: server.folder.path + "/" + name, maximumSize: maximum)
        do {
            _ = try await onThread(HTTPControl()) { try get.run(HTTPControl()) }
            return nil
        } catch { return (error as? UploadError)?.code }
    }

    @Test(
        "X27 a fetched file appears whole or not at all: too large, redirected, missing, changed, already there"
    )
    func fetching() async throws {
        try await closing(WebServer()) { server in
            _ = try server.file(pattern(1000), as: "plain")
            #expect(await fetch(server, "take/plain", to: "a") == nil)
            #expect(await fetch(server, "take/plain", to: "a") == .fileExists)
            #expect(await fetch(server, "take/plain", to: "b", maximum: 999) == .tooLarge)
            #expect(await fetch(server, "endless", to: "b") == .tooLarge)
            #expect(await fetch(server, "redirect", to: "b") == .httpStatus)
            #expect(await fetch(server, "404", to: "b") == .httpStatus)
            #expect(await fetch(server, "take/plain", to: "none/b") == .fileMissing)
            // Encrypted for somebody else, or changed on the way.
            let link = AesgcmLink(to: "https://h/f")
            #expect(await fetch(server, "take/plain", link, to: "b") == .undecryptable)
            let names = try FileManager.default.contentsOfDirectory(atPath: server.folder.path)
            #expect(
                names.contains("a") && !names.contains { $0.hasPrefix("b") || $0.hasSuffix(".part") },
                "\(names)")
        }
    }
}
