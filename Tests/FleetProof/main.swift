// Machines that share accounts on PostgreSQL die, freeze and are cut off, and primaries are killed, while a peer sends messages. At the
// end nothing is lost, nothing is repeated, and no machine has committed anything after the others took it for dead.
//
//     fleet-proof [--seconds 600] [--machines 4] [--accounts 1000] [--rate 167] [--calm 20] [--seed 1]
//         [--only kill|freeze|cut|primary|silence] [--groups] [--json FILE] [--report FILE]
//
// A machine has a network namespace, or is a process group behind proxies with --groups and where none can be made.

import Foundation
import Glibc
import Platform
import Simulation

var words = Array(CommandLine.arguments.dropFirst())
if words.first == "machine" {
    try await Machine.run(Array(words.dropFirst()))
    exit(0)
}

func fail(_ text: String) -> Never {
    complain("fleet-proof: \(text)")
    exit(2)
}

var size = Fleet.Size()
var files: [String: String] = [:]
var rest = words[...]
while let word = rest.popFirst() {
    if word == "--groups" {
        size.isWithoutNetworks = true
        continue
    }
    guard let value = rest.popFirst() else { fail("\(word) needs a value") }
    if ["--json", "--report"].contains(word) {
        files[word] = value
        continue
    }
    if word == "--only" {
        guard let kind = Faults.Kind(rawValue: value) else {
            fail("--only needs kill, freeze, cut, primary or silence")
        }
        size.faults = [kind]
        continue
    }
    guard let number = Int(value), number > 0 || word == "--calm" && number == 0 else {
        fail("\(word) needs a number from \(word == "--calm" ? 0 : 1) on")
    }
    switch word {
    case "--seconds": size.seconds = number
    case "--machines" where 2...15 ~= number: size.machines = number
    case "--machines": fail("there are 2 to 15 machines")
    case "--accounts": size.accounts = number
    case "--rate": size.rate = number
    case "--calm": size.calm = number
    case "--seed": size.seed = UInt64(number)
    default: fail("unknown option \(word)")
    }
}
let fleet = try Fleet(size)
do {
    print(
        "\(size.machines) machines (\(fleet.servers.network != nil ? "network namespaces" : "process groups behind proxies, as this process may make no network namespaces or was told so")), \(size.accounts) accounts, seed \(size.seed)"
    )
    fflush(nil)
    let findings = try Proof(fleet).run()
    print(findings.text)
    if let file = files["--json"] {
        try OneLineJSON.text(findings).write(toFile: file, atomically: true, encoding: .utf8)
    }
    if let file = files["--report"] {
        try FleetPage.text(fleet, findings).write(toFile: file, atomically: true, encoding: .utf8)
    }
    if !findings.isProven,
        let said = try? String(contentsOfFile: "\(fleet.servers.folder)/machines.log", encoding: .utf8)
    {
        print(said.suffix(4000))
    }
    fleet.close()
    exit(findings.isProven ? 0 : 1)
} catch {
    complain("fleet-proof: \(error)")
    fleet.close()
    exit(1)
}
