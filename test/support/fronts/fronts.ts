import { envoy } from "./envoy.ts"
import { haproxy } from "./haproxy.ts"

/** The programs that docs/cells.md has configurations for. */
export const fronts = [haproxy, envoy]

for (const { missing, name } of fronts)
  if (missing !== undefined) process.stdout.write(`cells are not run behind ${name}: ${missing}\n`)
