/** Resolves `countersign/…` to this repository's sources. In your project the installed package needs no such condition. */
import { defineConfig } from "vitest/config"

export default defineConfig({
  ssr: { resolve: { conditions: ["@countersign/source"] } },
  test: { include: ["examples/*.test.ts"], root: ".", testTimeout: 30_000 }
})
