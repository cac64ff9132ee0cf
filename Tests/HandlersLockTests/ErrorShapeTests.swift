import Foundation
import Handlers
import Omemo
import PubSub
import TestThreads
import Testing
import Upload
import XMPPAccount
import XMPPCore
import XMPPTestKit
import XMPPTransport

/// Every public error has a code, a sentence and a cause.
@Suite(.ownThread) struct ErrorShapeTests {
    private struct Beneath: Error, CustomStringConvertible { let description = "the disk is gone" }

    private static func thrown<Failure: CodedError>(_ body: () throws(Failure) -> Void) -> any CodedError {
        do throws(Failure) {
            try body()
        } catch {
            return error
        }
        return AccountError(.closed, "nothing was thrown")
    }

    private static let errors: [any CodedError] = [
        HandlerError(.sql, "check the statement", cause: Beneath()),
        AccountError(.timedOut, "try again later", cause: Beneath()),
        TransportError(.timedOut, "try again later", cause: "the disk is gone"),
        SASLError(.notAuthorized, "check the password", cause: "the disk is gone"),
        CallError(.failed, "try again later"),
        OmemoError(.malformed, "nothing can be done here"),
        UploadError(.tooLarge, "send a smaller file"),
        PubSubError(StanzaError(.itemNotFound)),
        PubSubPayloadError(.unreadable, "leave the item out"),
        StanzaError(.badRequest, text: "send one child element"),
        StreamError(.policyViolation, text: "send smaller stanzas"),
        thrown { () throws(JIDError) in _ = try JID("a@") },
        thrown { () throws(ElementValueError) in
            _ = try Element("a", namespace: "n").value(of: "code", as: UInt8.self)
        },
        thrown { () throws(StanzaFormatError) in
            _ = try Stanza(
                Element("message", namespace: Namespaces.client, attributes: ["type": "odd", "to": "a@"]))
        },
        thrown { () throws(StreamParserError) in _ = try Element(parsing: "<a>") },
        thrown { () throws(ScriptedServerError) in
            _ = try ScriptedServer(
                .init(domain: "a@b@", accounts: [:], certificateFile: "none.pem", keyFile: "none.pem"))
        },
    ]

    @Test("an error has a code with a stable name, and a sentence that its description shows")
    func shape() {
        for error in Self.errors {
            #expect(!error.codeName.isEmpty, "\(type(of: error))")
            #expect(error.message.count > 8, "\(type(of: error)): \(error.message)")
            #expect(String(describing: error).contains(error.message), "\(type(of: error)): \(error)")
        }
        #expect(!Self.errors.contains { $0.message == "nothing was thrown" })
    }

    @Test("every error type of the sources that others can name has the shape")
    func types() throws {
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources")
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        let known = Set(Self.errors.map { "\(type(of: $0))" })
        var found: Set<String> = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let code = try String(contentsOf: file, encoding: .utf8)
            for match in code.matches(
                of: #/public (?:struct|enum|class) (\w+)[^{\n]*\b(?:Coded)?Error\b[,\s{]/#)
            {
                found.insert(String(match.1))
            }
        }
        // An event that tells of a handler that failed for good; it holds the error's words.
        found.remove("HandlerFailure")
        #expect(found == known)
    }

    @Test("an error shows the error beneath as its cause")
    func cause() {
        for error in Self.errors.prefix(4) {
            #expect(error.cause.map { String(describing: $0) } == "the disk is gone", "\(type(of: error))")
        }
    }
}

extension CodedError {
    /// The name of the code.
    fileprivate var codeName: String { code.description }
}
