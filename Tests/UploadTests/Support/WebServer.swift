import FoundationEssentials
import TestSupport
import XMPPAccount
import XMPPTransport
import TestServers
import XMPPTestKit

@testable import Upload

/// A web server that does what the path says; see `web_server.py`.
final class WebServer: Sendable, TestResource {
    struct Request: Decodable {
        var line: String
        var headers: [[String]]
        var size: Int64
        var digest: String

        func header(_ name: String) -> [String] {
            headers.filter { $0[0].lowercased() == name.lowercased() }.map { $0[1] }
        }
    }

    let folder: TemporaryFolder
    let certificates: TestCertificates
    private let port: LoopbackPort
    private let process: ChildProcess

    init(flaw: TestCertificates.Flaw = .none) throws {
        folder = try TemporaryFolder()
        certificates = try TestCertificates(in: folder.path)
        let certificate = try certificates.makeServerCertificate(for: ["localhost"], flaw: flaw)
        port = try LoopbackPort()
        let script = folder.path + "/web_server.py"
        try Data(PackageResources.web_server_py).write(to: URL(filePath: script))
        process = try ChildProcess(
            SlixmppPeer.locatePython(),
            [
                "-B", script, String(port.number), certificate.certificateFile, certificate.keyFile,
                folder.path,
            ],
            output: .pipe, errors: .file(folder.path + "/errors"))
        _ = try process.output?.readLine(deadline: .now + .seconds(60)) { $0 == "ready" }
    }

    func close() async { _ = process.killAndWait() }

    func address(_ path: String) -> String { "https://localhost:\(port.number)/\(path)" }

    /// What it was asked.
    var requests: [Request] {
        get throws {
            let text = (try? String(contentsOfFile: folder.path + "/log", encoding: .utf8)) ?? ""
            return try text.split(separator: "\n").map {
                try JSONDecoder().decode(Request.self, from: Data($0.utf8))
            }
        }
    }

    /// A file to be put.
    func file(_ bytes: [UInt8], as name: String = "file") throws -> String {
        let path = folder.path + "/" + name
        try Data(bytes).write(to: URL(filePath: path))
        return path
    }

    func put(
        _ path: String, at place: String, encrypted: Bool = false, headers: [UploadSlot.Header] = [],
        limits: HTTPRequest.Limits = .init(
            connecting: .seconds(20), stalled: .seconds(20), total: .seconds(40)),
        authority: String? = nil
    ) throws -> FilePut {
        let slot = try UploadSlot(put: address(place), headers: headers, get: address(place))
        return FilePut(
            path: path, type: "text/plain", identity: try LocalFile(path).identity(), isEncrypted: encrypted,
            slot: slot, trust: .file(path: authority ?? certificates.authorityFile), limits: limits,
            reach: .local)
    }
}

extension HTTPReach {
    /// To the web servers of tests, which are on this machine.
    static let local = HTTPReach(privateHosts: ["localhost"])
}

extension UploadSlot {
    init(put: String, headers: [Header] = [], get: String) throws {
        let json = try JSONEncoder().encode(["put": put, "get": get])
        var text = String(decoding: json, as: UTF8.self)
        text.removeLast()
        text += ",\"headers\":" + String(decoding: try JSONEncoder().encode(headers), as: UTF8.self) + "}"
        self = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
    }
}

/// Bytes that no two places have alike.
func pattern(_ count: Int) -> [UInt8] {
    // It comes again after so many, and millions of them cost a second each in a test that is not optimized.
    let period = (0..<min(count, 1 << 16)).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    return period.count < count ? repeating(period, count) : period
}

private func repeating(_ period: [UInt8], _ count: Int) -> [UInt8] {
    var bytes = period
    while bytes.count < count { bytes += bytes.prefix(count - bytes.count) }
    return bytes
}

/// The SHA-256 in hexadecimal digits.
func digest(_ bytes: [UInt8]) -> String {
    Crypto.digest(.sha256, bytes).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
