import XMPPAccount
import XMPPCore
import XMPPModules

/// Shows what happens in a room beside what is said: who comes and goes, the subject, and whether the account is still there.
///
/// On standard error, so that standard output holds messages only.
struct RoomWatch {
    let room: JID
    let account: Account

    /// - Throws: ``CommandFailure`` when the account was removed from the room permanently.
    func run(_ events: AsyncStream<RoomEvent>) async throws {
        var (isIn, isOut) = (false, false)
        // The presence of occupants is repeated when they change it.
        var occupants: Set<ForeignText> = []
        for await event in events where event.room == room {
            switch event.change {
            case .left(let departure) where departure.reason != .left:
                try checkWanted("out of \(room): \(Self.sentence(departure))")
                isOut = true
                occupants = []
                write("out of \(room) for now: \(Self.sentence(departure))")
            case .joined(let nick, _) where isOut:
                isOut = false
                write("in \(room) again as \(nick)")
            case .joined:
                isIn = true
                try showOccupants()
            case .refused(let error): try checkWanted("\(room) does not let the account in again: \(error)")
            case .occupant(let occupant):
                // Those who are there already come before the account is in.
                guard occupants.count < Self.mostOccupants, occupants.insert(occupant.nick).inserted, isIn,
                    !isOut
                else { break }
                write("\(occupant.nick) comes")
            case .occupantRenamed(let old, let new):
                occupants.remove(old)
                occupants.insert(new)
                write("\(old) is now \(new)")
            case .occupantLeft(let nick, let departure):
                occupants.remove(nick)
                write("\(nick) goes: \(Self.sentence(departure))")
            case .nickChanged(_, let nick): write("the account is now \(nick)")
            case .subject(let subject?, let author):
                write("\(author.resource ?? "the room") sets the subject: \(subject)")
            case .subject(nil, let author): write("\(author.resource ?? "the room") removes the subject")
            case .messageRefused(_, let error): write("a message was not taken: \(error)")
            case .messageUnconfirmed: write("nobody knows whether a message was taken")
            default: break
            }
        }
    }

    /// Further occupants of a room come and go without a line.
    private static let mostOccupants = 1000

    /// The number of nicknames in a line.
    private static let mostShown = 20

    private func showOccupants() throws {
        let nicks = try account.store.read { try account.rooms.occupants(of: room, in: $0).map(\.nick) }
        guard !nicks.isEmpty else { return }
        let names: [VisibleText] = nicks.prefix(Self.mostShown).map { "\($0)" }
        let rest: VisibleText =
            nicks.count > Self.mostShown ? " and \(nicks.count - Self.mostShown) more" : ""
        write("there: \(VisibleText(joining: names, by: ", "))\(rest)")
    }

    private func write(_ sentence: VisibleText) {
        Terminal.writeError("\(ClientLine.local(account.configuration.time.wall())) \(sentence)\n")
    }

    private func checkWanted(_ failure: String) throws {
        let state = try account.store.read { try account.rooms.room(room, in: $0)?.state }
        guard state == .wanted else { throw CommandFailure(failure) }
    }

    private static func sentence(_ departure: RoomDeparture) -> String {
        let what =
            switch departure.reason {
            case .left: "left"
            case .kicked: "put out by a moderator"
            case .banned: "banned"
            case .affiliationChanged: "put out, because of another standing in the room"
            case .membersOnly: "put out, because the room is for members only now"
            case .shutdown: "the service shuts down"
            case .failed: "the room cannot be reached"
            case .destroyed(let alternative):
                "the room was destroyed" + (alternative.map { "; \($0) takes its place" } ?? "")
            }
        return what + (departure.text.map { " (\($0))" } ?? "")
    }
}
