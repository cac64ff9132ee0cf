import Handlers
import XMPPCore

// From a good login to a session: resumed, or bound again.
extension SessionOpening {
    /// The maximum number of stanzas between `<enable/>` and its answer.
    private static let uncountedLimit = 1000

    // MARK: In the login's own round trip (XEP-0388, XEP-0386, XEP-0198 section 9)

    mutating func startSession(_ success: SASL2Success, _ attempt: Attempt) async throws
        -> StreamOpener.Outcome
    {
        try check(success.address)
        var failed: StreamOpener.FailedResumption?
        if let answer = success.resumption, let asked = attempt.resumption {
            answers.append(answer)
            // No features follow a resumption.
            if answer.name == "resumed" { return try resumed(answer, asked) }
            failed = StreamOpener.FailedResumption(answer)
        }
        guard let binding = success.binding else {
            return try await startClassicSession(
                isNewStream: false, hasAskedToResume: success.resumption != nil, failed: failed)
        }
        guard binding.name == "bound", let address = success.address, address.isFull else {
            throw AccountError(.bindFailed, "\(domain) gave no resource; it is tried again")
        }
        answers += binding.elements.filter { $0.namespace == Namespaces.sm }
        let session = managed(
            BoundSession(fullJID: address, isManaged: false, resumptionID: nil, location: nil),
            binding.child("enabled", Namespaces.sm))
        learned.isManaging = session.isManaged
        return .bound(session, failed: failed)
    }

    /// Throws unless the address is one of the account: the server prepares it by rules of its own (XEP-0388 section 2.6).
    private func check(_ address: JID?) throws {
        guard let address else { return }
        let isExpected =
            configuration.jid.local == nil
            ? address.domainJID.isForm(of: configuration.jid) : address.bare.isForm(of: configuration.jid)
        guard isExpected else {
            throw AccountError(
                .protocolViolation,
                "\(domain) logged in \(address) although \(configuration.jid) was asked for")
        }
    }

    private func resumed(_ answer: Element, _ asked: StreamOpener.Resumption) throws -> StreamOpener.Outcome {
        guard answer["previd"] == asked.id, let h = HandledCount(answer["h"]) else {
            throw AccountError(
                .protocolViolation, "the server resumed another session than the one asked for")
        }
        return .resumed(h)
    }

    // MARK: One after the other (RFC 6120 section 7, XEP-0198)

    /// Resumes or binds after the login, with as few round trips as possible.
    ///
    /// - Parameters:
    ///   - isNewStream: Whether a stream header has just been written and not been sent.
    ///   - hasAskedToResume: Whether the server has already refused to resume.
    mutating func startClassicSession(
        isNewStream: Bool, hasAskedToResume: Bool, failed: StreamOpener.FailedResumption?
    ) async throws -> StreamOpener.Outcome {
        var asked: StreamOpener.Resumption?
        // A session that can be resumed had stream management, so the server most likely still has it.
        if !hasAskedToResume, isNewStream, known.isManaging { asked = try askToResume() }
        let features = isNewStream ? try await stream.features() : try await stream.furtherFeatures()
        let canManage = features.child("sm", Namespaces.sm) != nil
        learned.isManaging = canManage
        learned.hasClientState = features.child("csi", Namespaces.csi) != nil
        learned.stanzaLimit = StanzaLimit.announced(in: features)
        // XEP-0198 section 5: resuming replaces binding, so it comes first and only if offered.
        if asked == nil, !hasAskedToResume, canManage { asked = try askToResume() }
        var failed = failed
        if let asked {
            try Failpoint.afterResumeSent.hit()
            let answer = try await stream.element()
            answers.append(answer)
            if answer.has(name: "resumed", namespace: Namespaces.sm) { return try resumed(answer, asked) }
            guard answer.has(name: "failed", namespace: Namespaces.sm) else {
                throw AccountError(.protocolViolation, "the server answered <resume/> with <\(answer.name)/>")
            }
            failed = StreamOpener.FailedResumption(answer)
        }
        var session = try await bind(canManage: canManage)
        session.features = Set(features.elements.map(\.namespace))
        return .bound(session, failed: failed)
    }

    /// Sends `<resume/>`, which acknowledges. A process that was frozen while it connected must not send it after another
    /// process has received more.
    private func askToResume() throws -> StreamOpener.Resumption? {
        var asked: StreamOpener.Resumption?
        try withResumption { resumption in
            guard let resumption else { return }
            try stream.sendAtOnce([resumption.element])
            asked = resumption
        }
        return asked
    }

    /// Binds and enables in one flight: the server works in order. A process that was frozen while it connected must not take the
    /// resource from its successor.
    private mutating func bind(canManage: Bool) async throws -> BoundSession {
        let payload = Element(
            "bind", namespace: Namespaces.bind,
            children: [Element("resource", namespace: Namespaces.bind, text: opener.resource)])
        let id = StanzaID.random()
        let request = IQ(type: .set, id: id, payload: payload).element
        try withResumption { _ in
            try stream.sendAtOnce([request] + (canManage ? [StreamOpener.enableElement(configuration)] : []))
        }
        let answer = try await stream.element()
        guard let iq = try? IQ(element: answer), iq.id == id, iq.type == .result,
            let text = iq.payload?.child("jid", Namespaces.bind)?.text, let jid = try? JID(received: text),
            jid.isFull
        else {
            let reason = (try? IQ(element: answer))?.error.map { "\($0)" } ?? "<\(answer.name)/>"
            throw AccountError(.bindFailed, "\(domain) gave no resource (\(reason)); it is tried again")
        }
        let session = BoundSession(fullJID: jid, isManaged: false, resumptionID: nil, location: nil)
        return canManage ? try await enabled(session) : session
    }

    private mutating func enabled(_ session: BoundSession) async throws -> BoundSession {
        // The resource is bound, so stanzas may come; they count only behind <enabled/> (XEP-0198 section 4).
        while try await stream.isStanzaNext(), uncounted.count < Self.uncountedLimit {
            uncounted.append(try await stream.arrival())
        }
        let answer = try await stream.element()
        answers.append(answer)
        if answer.has(name: "failed", namespace: Namespaces.sm) {
            var session = session
            session.refusal = StanzaError(failed: answer) ?? StanzaError(.undefinedCondition)
            return session
        }
        guard answer.has(name: "enabled", namespace: Namespaces.sm) else {
            throw AccountError(.protocolViolation, "the server answered <enable/> with <\(answer.name)/>")
        }
        return managed(session, answer)
    }

    private func managed(_ session: BoundSession, _ enabled: Element?) -> BoundSession {
        guard let enabled else { return session }
        var session = session
        session.isManaged = true
        // XEP-0198 section 3: only resume='true' (or '1') makes the id good for a resumption.
        if (try? enabled.value(of: "resume")) == true {
            session.resumptionID = enabled["id"]?.string
            session.window = (try? enabled.value(of: "max", as: UInt32.self)).map { .seconds($0) }
        }
        session.location = enabled["location"]?.string
        return session
    }
}
