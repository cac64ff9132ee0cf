// The first run binds a handler and kills itself; the second run calls it.
import Glibc
import Handlers

// snippet.handler
struct Payment: RestorableContext, Codable { var cents: Int }

struct Thank: Handler {
    static let id = "shop.thank"
    var customer: String  // stored when bound

    func run(_ call: borrowing Call<Payment>) throws {  // the payment is known only when called
        try call.step.execute("INSERT INTO letter VALUES (?)", "\(customer) paid \(call.cents) cents")
    }
}
// snippet.end

// snippet.store
let shop = Schema(
    module: "shop",
    migrations: ["CREATE TABLE unpaid(handler INTEGER NOT NULL); CREATE TABLE letter(text TEXT NOT NULL)"])
let store = try HandlerStore(path: "shop.db", registry: HandlerRegistry([Thank.self]), schemas: [shop])
// snippet.end

let waiting = try store.read { snapshot in
    try snapshot.first("SELECT handler FROM unpaid") { HandlerID<Payment>(rawValue: $0.integer(0)) }
}
guard let waiting else {
    // snippet.bind
    try store.step { step in
        let handler = try step.bind(Thank(customer: "Ada").durable)
        try step.execute("INSERT INTO unpaid VALUES (?)", handler)
    }
    // snippet.end
    print("Bound a handler. Killing this process.")
    fflush(nil)
    kill(getpid(), SIGKILL)
    fatalError("nothing runs after SIGKILL")
}
// snippet.finish
let disposition = try store.step { step in
    let disposition = try step.end(waiting, .result, with: Payment(cents: 1999))
    try step.execute("DELETE FROM unpaid")  // where the handler failed, its row holds the payment
    return disposition
}
if disposition != .ended { print("to be called again: \(disposition)") }
// snippet.end
let letter = try store.read { snapshot in
    try snapshot.first("SELECT text FROM letter ORDER BY rowid DESC") { $0.text(0) }
}
print(letter ?? "no letter")
