// ECharts GL ships types for its options, not for its parts.
declare module 'echarts-gl/charts' {
  export const Bar3DChart: never;
}
declare module 'echarts-gl/components' {
  export const Grid3DComponent: never;
}
