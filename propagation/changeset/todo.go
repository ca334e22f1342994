package changeset

func decide(in Input) Decision { panic("todo") }
