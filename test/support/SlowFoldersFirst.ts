import { BaseSequencer, type TestSpecification } from "vitest/node"

/** Folders whose files start browsers, processes or database servers. */
const SLOW = /\/test\/(?:adapters|cli|console|e2e|faults|scripts|server\/(?:deletion|store))\//

/**
 * Starts the files that take longest first, so that none of them runs alone at the end while the other workers have nothing to do. Vitest
 * sorts by durations of earlier runs, which a new clone does not have, or by the size of the file, which says little.
 */
export class SlowFoldersFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not that of arrays
    const sorted = await super.sort(files)
    // Files of one project stay together: they share worker processes.
    const projects = [...new Set(sorted.map(({ project }) => project))]
    const rank = ({ moduleId, project }: TestSpecification) =>
      2 * projects.indexOf(project) + (SLOW.test(moduleId) ? 0 : 1)
    return sorted.toSorted((one, other) => rank(one) - rank(other))
  }
}
