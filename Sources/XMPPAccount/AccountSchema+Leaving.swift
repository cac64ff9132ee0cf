import Handlers
import XMPPCore

extension Account {
    /// Adds to the schema of accounts what a move of the store does in the place that it leaves.
    static func leaving(_ schema: Schema) -> Schema {
        var schema = schema
        schema.leave = { step, filePath in
            if !filePath.isEmpty { try refuseOlder(step, filePath) }
            // Slots count stores at one place, and no stream is open.
            try step.execute("UPDATE ownership SET owner = NULL, slot = NULL")
            try step.execute("UPDATE session SET open_number = NULL")
            // An older program has left keys that PostgreSQL has no place for; a character has four bytes at most. A message without a
            // mark counts as new once.
            try step.execute(
                "DELETE FROM seen WHERE length(peer) + length(stanza_id) > ?", ForeignBounds.key / 4)
        }
        return schema
    }

    /// The record of what was sent stays beside the file, so it is compared here for the last time.
    private static func refuseOlder(_ step: borrowing Step, _ filePath: String) throws {
        for account in try step.all("SELECT id FROM account ORDER BY id", read: { $0.integer(0) }) {
            guard let sent = OwnerFile.sent(account, database: filePath),
                try sent.isAhead(of: OwnershipTable(account: account), in: step)
            else { continue }
            throw HandlerError(
                .databaseForeign,
                "the store \(filePath) is older than what account \(account) has sent to its server: it was put back from a backup. Start its program with it once, so that the session starts again, then move it. Nothing was changed"
            )
        }
    }
}
