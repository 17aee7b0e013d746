import type { RunRecord } from "../../../domain/tasks/Run.ts"

/** Who answered a run, in a few words. */
export const answeredBy = ({ model, source }: Pick<RunRecord, "model" | "source">): string =>
  model === null ? "the client" : source === "logged" ? `${model}, called by the client` : model
