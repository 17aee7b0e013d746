/** Session streams: `npm run bench -- stream [idle|decisions …]`; without a part, both. */
import { runParts } from "./runParts.ts"
import { decisions } from "./stream/decisions.ts"

const parts = {
  idle: () => import("./stream/idle.ts"),
  decisions
}

export const run = runParts(parts)
