import path from "node:path"
import { BaseSequencer, type TestSpecification } from "vitest/node"
import slowest from "./slowest.json" with { type: "json" }

const rankByFile: ReadonlyMap<string, number> = new Map(slowest.map((file, rank) => [file, rank]))

/**
 * Starts the files that take longest first, so that none of them runs alone at the end while the other workers have nothing to do. Vitest
 * sorts by durations of earlier runs, which a new clone does not have, or by the size of the file, which says little. `scripts/slowest.ts`
 * writes the list.
 */
export class SlowestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not that of arrays
    const sorted = await super.sort(files)
    // Files of one project stay together: they share worker processes.
    const projects = [...new Set(sorted.map(({ project }) => project))]
    const rank = ({ moduleId, project }: TestSpecification) =>
      rankByFile.get(path.relative(project.config.root, moduleId)) ?? slowest.length
    return sorted.toSorted(
      (one, other) =>
        projects.indexOf(one.project) - projects.indexOf(other.project) || rank(one) - rank(other)
    )
  }
}
