// A program that starts a PostgreSQL server and keeps it until the end of its standard input, for tests that kill it and for
// benchmarks in other languages.
//
//     postgres-program [SETTING=VALUE ...]
//
// Prints the connection string, then the process id and the folder of the server.

import Glibc
import TestServers

var options = PostgresOptions()
for word in CommandLine.arguments.dropFirst() {
    let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
    options.settings[parts[0]] = parts.count > 1 ? parts[1] : ""
}
let server = try PostgresServer(options: options)
try server.start()
print(server.connection())
print(server.processID ?? 0, server.folder)
fflush(nil)
while readLine() != nil {}
server.close()
