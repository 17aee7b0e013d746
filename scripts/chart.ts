/**
 * Installs Helm, kubeconform and promtool below node_modules/.cache, with Go, and runs the tests of the Helm chart with them
 * (`npm run chart`). The first build of promtool takes minutes. The gate runs the installed ones.
 */
import { spawnSync } from "node:child_process"
import { mkdirSync } from "node:fs"
import path from "node:path"
import { chartTools, root } from "./deploy/chartTools.ts"
import { parseOptions } from "./parseOptions.ts"

const MODULES = [
  "helm.sh/helm/v3/cmd/helm@v3.22.0",
  "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
  "github.com/prometheus/prometheus/cmd/promtool@v0.316.0"
]

parseOptions(import.meta.filename, { options: {} })

mkdirSync(chartTools, { recursive: true })
for (const module of MODULES) {
  const { error, status } = spawnSync("go", ["install", module], {
    env: { ...process.env, GOBIN: chartTools, GOFLAGS: "-mod=mod" },
    cwd: chartTools,
    stdio: "inherit"
  })
  if (status === 0) continue
  console.error(`chart: cannot install ${module}: ${error?.message ?? "go install failed"}`)
  process.exit(1)
}
const vitest = path.join(root, "node_modules", ".bin", "vitest")
const { status } = spawnSync(vitest, ["run", "test/scripts/deploy"], { cwd: root, stdio: "inherit" })
process.exitCode = status ?? 1
