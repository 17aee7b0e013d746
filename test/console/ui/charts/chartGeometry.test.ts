import { assert, describe, it } from "@effect/vitest"
import { chartData, pointText } from "../../../../src/console/ui/charts/ChartData.ts"
import {
  barGeometry,
  lineGeometry,
  nearestPoint,
  sparkGeometry
} from "../../../../src/console/ui/charts/chartGeometry.ts"

const size = { width: 480, height: 168 }
const series = [
  { name: "approved", tone: "good" },
  { name: "rejected", tone: "bad" }
] as const

const data = (...values: ReadonlyArray<ReadonlyArray<number | null>>) =>
  chartData({
    series,
    points: values.map((value, index) => ({ key: String(index), label: `day ${index}`, values: value }))
  })

describe("Chart geometry", () => {
  it("stacks the segments of a bar without a gap, in proportion to their values", () => {
    const { bottom, segments } = barGeometry(data([3, 1], [0, 4]), size)
    const [approved, rejected] = segments.filter(({ point }) => point === 0)
    assert.strictEqual((approved?.y ?? 0) + (approved?.height ?? 0), bottom)
    assert.closeTo((rejected?.y ?? 0) + (rejected?.height ?? 0), approved?.y ?? 0, 1e-9)
    assert.closeTo((approved?.height ?? 0) / (rejected?.height ?? 1), 3, 1e-9)
    assert.strictEqual(segments.filter(({ point }) => point === 1).length, 1, "a value of 0 has no segment")
  })

  it("draws a value that is tiny beside the highest one at least one pixel high", () => {
    const { segments } = barGeometry(data([100_000, null], [1, null]), size)
    assert.deepStrictEqual(
      segments.map(({ height }) => height >= 1),
      [true, true]
    )
  })

  it("keeps bars and lines inside of the frame for 1, 2 and 400 points", () => {
    for (const count of [1, 2, 400]) {
      const many = data(...Array.from({ length: count }, (_, index) => [index, 1]))
      const bars = barGeometry(many, size)
      for (const { width, x, y } of bars.segments) {
        assert.isAtLeast(x, bars.left - 1e-9)
        assert.isAtMost(x + width, bars.right + 1.001)
        assert.isAtLeast(y, bars.top - 1e-9)
      }
      for (const { dots } of lineGeometry(many, size).lines)
        for (const { x, y } of dots) {
          assert.isTrue(x >= bars.left && x <= bars.right)
          assert.isTrue(y >= bars.top - 1e-9 && y <= bars.bottom)
        }
    }
  })

  it("labels the newest point, and no more points than fit", () => {
    const { places } = barGeometry(data(...Array.from({ length: 30 }, () => [1, 1])), size)
    assert.isTrue(places.at(-1)?.hasLabel)
    assert.isAtMost(places.filter(({ hasLabel }) => hasLabel).length, 5)
  })

  it("interrupts a line where there is no value", () => {
    const [line] = lineGeometry(data([1, 1], [null, 1], [3, 1], [4, 1]), size).lines
    assert.strictEqual(line?.dots.length, 3)
    assert.strictEqual(line?.path.match(/M/g)?.length, 2)
  })

  it("has an axis from 0 to 1 when all values are 0", () => {
    const { grid, segments } = barGeometry(data([0, 0]), size)
    assert.strictEqual(segments.length, 0)
    assert.strictEqual(grid[0]?.value, 0)
    assert.strictEqual(grid.at(-1)?.value, 1)
  })

  it("has grid lines at whole numbers for counts, and between them for other values", () => {
    const lines = (value: number) => barGeometry(data([value, 0]), size).grid.map((grid) => grid.value)
    assert.deepStrictEqual(lines(1), [0, 1])
    assert.deepStrictEqual(lines(0.5), [0, 0.2, 0.4, 0.6])
  })

  it("selects the nearest point, and none of an empty chart", () => {
    const { places } = barGeometry(data([1, 1], [1, 1], [1, 1]), size)
    assert.strictEqual(nearestPoint(places, -50), 0)
    assert.strictEqual(nearestPoint(places, (places[1]?.x ?? 0) + 1), 1)
    assert.strictEqual(nearestPoint(places, 5_000), 2)
    assert.isUndefined(nearestPoint([], 10))
  })

  it("ends a sparkline at the last value that there is", () => {
    const spark = sparkGeometry([1, 2, null], { width: 96, height: 24 })
    assert.strictEqual(spark?.last.x, 48)
    assert.isUndefined(sparkGeometry([null, null], { width: 96, height: 24 }))
    assert.isUndefined(sparkGeometry([], { width: 96, height: 24 }))
  })
})

describe("Chart text", () => {
  it("names each value of a point, missing ones too, and the marks on it", () => {
    const marked = chartData({
      series,
      points: [{ key: "a", label: "Nov 3", values: [1_200, null] }],
      marks: [{ at: 0, label: "release 4" }]
    })
    assert.strictEqual(pointText(marked, 0), "1,200 approved, none rejected, release 4")
    assert.strictEqual(pointText(marked, 1), "")
  })
})
