module github.com/spanflame/spanflame

go 1.26
