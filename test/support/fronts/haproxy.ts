import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { connect } from "node:net"
import path from "node:path"
import {
  ACME,
  DOMAIN,
  frontDirectory,
  type FrontProgram,
  NEIGHBOUR,
  spawnFront,
  untilReady
} from "./Front.ts"
import { freePort } from "../freePort.ts"

const MAP = "/etc/haproxy/organizations.map"

/** HAProxy with `scripts/deploy/haproxy.cfg` (`apt-get install haproxy`). */
export const haproxy: FrontProgram = {
  name: "HAProxy",
  missing:
    spawnSync("haproxy", ["-v"], { stdio: "ignore" }).status === 0 ? undefined : "haproxy is not installed",
  unreached: /cell2\/<NOSRV>/,
  start: Effect.fnUntraced(function* ({ cells, hosts }) {
    const directory = yield* frontDirectory
    const port = yield* Effect.promise(freePort)
    const map = path.join(directory, "organizations.map")
    const socket = path.join(directory, "admin.sock")
    writeFileSync(map, "")
    const config = readFileSync(new URL("../../../scripts/deploy/haproxy.cfg", import.meta.url), "utf8")
      .replaceAll(MAP, map)
      .replaceAll("/run/haproxy/admin.sock", socket)
      .replace("bind :8080", `bind 127.0.0.1:${port}`)
      .replace(
        `-m end .${DOMAIN}`,
        (known) => known + (hosts === undefined ? "" : ` ${hosts.acme} ${hosts.others}`)
      )
      .replaceAll(/^ *server replica2 .*$/gm, "")
      .replace("cell1-replica1.internal:8080", new URL(cells.cell1).host)
      .replace("cell2-replica1.internal:8080", new URL(cells.cell2).host)
    const file = path.join(directory, "haproxy.cfg")
    writeFileSync(file, config)
    const log = yield* spawnFront("haproxy", ["-db", "-f", file])
    yield* untilReady(port, hosts?.others ?? NEIGHBOUR)
    /** Sends a command to the socket of the administrator. */
    const command = (line: string) =>
      Effect.callback<string>((resume) => {
        let answer = ""
        const client = connect(socket, () => client.write(`${line}\n`))
        client.on("data", (text) => (answer += text.toString()))
        client.on("close", () => resume(Effect.succeed(answer)))
      })
    let verb = "add"
    return {
      port,
      log,
      routeAcme: (cell) =>
        Effect.suspend(() => {
          const sent = command(`${verb} map ${map} ${hosts?.acme ?? ACME} ${cell}`)
          verb = "set"
          return Effect.asVoid(sent)
        })
    }
  })
}
