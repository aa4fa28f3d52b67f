"""For pvpython: paraview_slice.py LIST PICTURE reads a list of steps, prints what ParaView finds in it, and draws a slice of the last step."""

import sys

from paraview import servermanager
from paraview.simple import ColorBy, CreateView, GetColorTransferFunction, PVDReader, ResetCamera, SaveScreenshot, Show, Slice

path, picture = sys.argv[1:]
reader = PVDReader(FileName=path)
reader.UpdatePipelineInformation()
times = list(reader.TimestepValues)
print("times", *times)
for time in (times[0], times[-1]):
    reader.UpdatePipeline(time)
    grid = servermanager.Fetch(reader)
    if grid.IsA("vtkMultiBlockDataSet"):
        grid = grid.GetBlock(0)
    print("extents", *grid.GetDimensions(), "u", *grid.GetPointData().GetArray("u").GetRange())
cut = Slice(Input=reader)
low_high = grid.GetBounds()
cut.SliceType.Origin = [sum(low_high[n : n + 2]) / 2 for n in (0, 2, 4)]
cut.SliceType.Normal = [0, 0, 1]
view = CreateView("RenderView")
view.ViewSize = [500, 500]
view.ViewTime = times[-1]
shown = Show(cut, view)
ColorBy(shown, ("POINTS", "u"))
shown.RescaleTransferFunctionToDataRange(True)
GetColorTransferFunction("u")
ResetCamera(view)
SaveScreenshot(picture, view)
