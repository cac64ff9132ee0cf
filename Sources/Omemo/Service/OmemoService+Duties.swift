package import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

extension OmemoService {
    /// The maximum number of empty messages in one step.
    static let dutiesAStep = 64

    /// Notes an empty message that a device is owed. It is sent once the account has caught up: a session that looks
    /// broken may be mended by what is still on its way, and one message then answers several.
    func owe(_ kind: OmemoDutyTable.Kind, to peer: OmemoAddress, in step: borrowing Step) throws(HandlerError)
    {
        guard try duties.add(kind, to: peer, in: step) else { return }
        step.afterCommit { self.followUp() }
    }

    /// Does what is owed once the account has caught up. A process that is killed before leaves the rows for the next
    /// ``start()``.
    func followUp() {
        let service = self
        Task {
            // From before the look on, so that the end of a catch-up is not missed.
            let progress = service.account.events(of: ArchiveProgress.self)
            do {
                try await service.account.caughtUp()
            } catch let error as AccountError where error.code == .protocolViolation {
                // Without stream management there is no telling; whatever has arrived was taken in.
            }
            if try await service.isCatchingUp() {
                for await _ in progress { if try await !service.isCatchingUp() { break } }
            }
            while try await service.account.perform({ step in try service.performDuties(in: step) }) {}
        }
    }

    /// Returns whether archives are still to be fetched from: what they hold may mend a session or need an old prekey.
    private func isCatchingUp() async throws -> Bool {
        try await account.perform { step in try self.isCatchingUp(in: step) }
    }

    /// A catch-up that an account without archives has left never ends.
    private func isCatchingUp(in step: borrowing Step) throws -> Bool {
        guard (try? account.module(ArchiveModule.self)) != nil else { return false }
        return try account.archive.progress(in: step).contains {
            $0.state == .waiting || $0.state == .fetching
        }
    }

    /// Sends what is owed, and publishes keys that have changed.
    ///
    /// - Returns: Whether more may be owed.
    @discardableResult
    package func performDuties(in step: borrowing Step) throws -> Bool {
        guard let own = try ownDevice.own(in: step), try !isCatchingUp(in: step) else { return false }
        guard try isNumberOurs(in: step) else {
            try reconcile(in: step)
            return false
        }
        let open = try duties.open(limit: Self.dutiesAStep, in: step)
        for duty in open { try perform(duty, own: own, in: step) }
        if !open.isEmpty { OmemoFailpoint.dutiesDone.hit() }
        // What was on its way has arrived, so nobody needs the used ones any more (XEP-0384 section 6).
        try ownDevice.deleteUsedPreKeys(before: Timestamp(milliseconds: .max), in: step)
        try duties.forgetOld(in: step)
        try fetches.forgetOld(session: account.sessionNumber(in: step), in: step)
        try maintain(in: step)
        try reconcile(in: step)
        return open.count == Self.dutiesAStep
    }

    private func perform(_ duty: OmemoDutyTable.Duty, own: OwnIdentity, in step: borrowing Step) throws {
        let peer = duty.peer
        let trust = try identities.identity(of: peer.device, of: peer.jid, in: step).map { identity in
            try identities.trust(in: identity, of: peer.jid, in: step) ?? .undecided
        }
        // Whom the user refused gets nothing at all.
        if trust == .untrusted { return try duties.done(duty.kind, to: peer, in: step) }
        guard duty.kind != .repair else {
            return try fetch(.init(jid: peer.jid, version: peer.version, device: peer.device), in: step)
        }
        do {
            try sendEmpty(to: peer, own: own, in: step)
            try duties.done(duty.kind, to: peer, in: step)
        } catch is SignalFailure {
            // The session is gone or broken: a new one answers as well.
            try duties.done(duty.kind, to: peer, in: step)
            _ = try duties.add(.repair, to: peer, in: step)
        }
    }
}
